"""A busy engine is asked again, a little later, and never for longer than the request may take."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.held_passes import endless_model

import marith
from marith import Options, Ticket
from marith.options import options as options_module

PAUSE = 0.02


@pytest.fixture(scope="module")
def endless_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A checkpoint that never ends a text by itself."""
    path: Path = tmp_path_factory.mktemp("endless")
    model, tokenizer = endless_model(4000)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return str(path)


@pytest.fixture
def crowded(endless_dir: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Options, Ticket]]:
    """Options over an engine that has room for one, which it holds until it is cancelled."""
    monkeypatch.setattr(options_module, "FIRST_PAUSE", PAUSE)
    options = Options(model=endless_dir, max_tokens=2, max_lanes=1, max_queue=0, speculation=None)
    with options.engine() as engine:
        running = engine.submit(options.overridden({"max_tokens": 3900}).request("a"))
        yield options, running


def test_a_busy_engine_is_asked_again(crowded: tuple[Options, Ticket]) -> None:
    options, running = crowded
    threading.Timer(5 * PAUSE, running.cancel).start()
    completion = options.overridden({"max_retries": 12}).submit("b").result(60)
    assert len(completion.tokens) == 2


@pytest.mark.parametrize(("retries", "pauses"), [(0, 0), (1, 1), (2, 3)])
def test_a_busy_engine_is_asked_max_retries_times(
    crowded: tuple[Options, Ticket], retries: int, pauses: int
) -> None:
    options, _ = crowded
    begun = time.monotonic()
    with pytest.raises(marith.Busy):
        options.overridden({"max_retries": retries}).submit("b")
    assert pauses * PAUSE <= time.monotonic() - begun


def test_a_busy_engine_is_not_asked_again_after_the_timeout(
    crowded: tuple[Options, Ticket],
) -> None:
    options, _ = crowded
    with pytest.raises(marith.Busy):  # not DeadlineExceeded: nothing was begun
        options.overridden({"max_retries": 99, "timeout": 20 * PAUSE}).submit("b")


def test_waiting_counts_toward_the_timeout(crowded: tuple[Options, Ticket]) -> None:
    options, running = crowded
    running.cancel()
    before = time.monotonic() - 20
    assert options.overridden({"timeout": 60}).submit("b", started=before).result(30).tokens
    with pytest.raises(marith.DeadlineExceeded, match=r"within 19\.9 seconds"):
        options.overridden({"timeout": 19.9}).submit("b", started=before)
    assert options.submit("b", started=before).result(30).tokens
    assert options.overridden({"timeout": 60}).deadline(before).left == pytest.approx(40, abs=1)


def test_other_errors_are_not_retried(crowded: tuple[Options, Ticket]) -> None:
    options, _ = crowded
    with pytest.raises(marith.ContextOverflow):
        options.overridden({"max_retries": 99}).submit("k " * 5000)
