"""One shared engine for all callers with the same options: loaded once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from marith import Engine, Options, Stop
from marith.scoring.weights import loader
from marith.testing import tiny_model, tiny_tokenizer


@pytest.fixture
def other(tmp_path: Path) -> str:
    tiny_model(seed=12).save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    return str(tmp_path)


@pytest.fixture
def slow(other: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The other checkpoint does not load before this event; loading has begun."""
    begun, release, load = threading.Event(), threading.Event(), loader.language_model

    def wait(name: str, placement: Any) -> Any:
        if name == other:
            begun.set()
            release.wait(60)
        return load(name, placement)

    monkeypatch.setattr(loader, "language_model", wait)
    with ThreadPoolExecutor(2) as pool:
        loads = [pool.submit(Engine.shared, other) for _ in range(2)]
        try:
            assert begun.wait(20)
            yield release
        finally:
            release.set()
            first, second = (each.result(30) for each in loads)
            assert first is second
            first.close()


def in_time(call: Callable[[], Any]) -> Any:
    """What a call returns, which may not wait for the checkpoint that loads."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(call).result(10)
    finally:
        pool.shutdown(wait=False)


@pytest.fixture
def engine(tiny_dir: str) -> Iterator[Engine]:
    with Engine.shared(tiny_dir, max_lanes=7) as engine:
        yield engine


def test_a_loaded_engine_is_found_while_another_loads(
    engine: Engine, tiny_dir: str, slow: threading.Event
) -> None:
    assert in_time(lambda: Engine.shared(tiny_dir, max_lanes=7)) is engine
    options = Options(model=tiny_dir, max_lanes=7, max_tokens=2, timeout=9)
    assert in_time(lambda: options.submit("a").result(9)).tokens


def test_an_engine_is_closed_while_another_loads(
    engine: Engine, tiny_dir: str, slow: threading.Event
) -> None:
    in_time(engine.close)
    slow.set()
    with Engine.shared(tiny_dir, max_lanes=7) as again:
        assert again is not engine
        assert again.generate("a", stop=Stop(2)).usage
