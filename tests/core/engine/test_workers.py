"""Workers are sent home without harm, and come back when there is something to compute."""

from __future__ import annotations

import ctypes
import gc
import threading
import time
import weakref
from pathlib import Path

import pytest
import torch

from marith import Engine, Stop
from marith.engine import workers
from marith.testing import tiny_model, tiny_tokenizer


def team() -> int:
    """How many threads this process has."""
    return len(list(Path("/proc/self/task").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads as Linux does")
@pytest.mark.skipif(workers._pause() is None, reason="this OpenMP does not know how")
def test_a_dismissed_team_is_gone_and_the_next_product_brings_it_back() -> None:
    if torch.get_num_threads() < 2:
        pytest.skip("one thread has no team")
    counts: list[int] = []

    def compute() -> None:
        x = torch.ones(1 << 20)
        for _ in range(2):
            x.exp()
            counts.append(team())
            workers.dismiss()
            counts.append(team())

    thread = threading.Thread(target=compute)
    thread.start()
    thread.join()
    with_team, without, again, gone = counts
    assert with_team - without == torch.get_num_threads() - 1
    assert (again, gone) == (with_team, without)


def test_whoever_has_no_team_dismisses_nobody() -> None:
    workers.dismiss()
    workers.dismiss()
    assert float(torch.ones(1 << 20).sum()) == 1 << 20


def test_a_runtime_that_does_not_know_how_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: object) -> object:
        raise OSError("no such library")

    workers._pause.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", none)
    try:
        workers.dismiss()
    finally:
        workers._pause.cache_clear()


def test_weights_go_with_their_engine_though_no_garbage_is_sought(tmp_path: Path) -> None:
    tiny_model(seed=9).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    engine = Engine.shared(str(tmp_path))
    engine.generate("k l", stop=Stop(3))
    weights = weakref.ref(next(engine._panel.base.checkpoint.model.parameters()))
    gc.disable()
    try:
        engine.close()
        del engine
        for _ in range(100):  # the engine's thread lets go of it a moment later
            if weights() is None:
                break
            time.sleep(0.02)
        assert weights() is None
    finally:
        gc.enable()


def test_what_an_application_holds_later_is_garbage_like_any(tmp_path: Path) -> None:
    class Index:
        def __init__(self) -> None:
            self.me = self

    tiny_model(seed=10).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    with Engine.shared("pocket"):
        for lanes in (8, 9):  # further engines
            index = Index()
            kept = weakref.ref(index)
            Engine.shared(str(tmp_path), max_lanes=lanes).close()
            del index
            gc.collect()
            assert kept() is None
