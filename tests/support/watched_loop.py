"""Watch an event loop while models generate, and require that lanes are freed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import marith
from marith.scoring.terms.prompted_scorer import PromptedScorer
from marith.testing import lanes_in_use

LONG: dict[str, Any] = {"max_tokens": 900, "grammar": marith.Grammar.regex("[a-z]{800}")}
PAUSE = 250  # beats of another thread during which a loop may stand still


class WatchedLoop:
    """Measures how long the event loop was blocked at most, and how often it turned.

    A thread that beats once a millisecond or later is the clock, so `longest` counts its beats. On
    a machine that does nothing for a second, the thread and the loop stand still together.
    """

    def __init__(self) -> None:
        self.longest = 0
        self.turns = 0
        self._beats = 0
        self._over = threading.Event()
        self._clock = threading.Thread(target=self._beat, daemon=True)

    async def __aenter__(self) -> WatchedLoop:
        self._clock.start()
        self._watch = asyncio.create_task(self._turn())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watch.cancel()
        self._over.set()
        self._clock.join()

    def _beat(self) -> None:
        while not self._over.wait(0.001):
            self._beats += 1

    async def _turn(self) -> None:
        while True:
            before = self._beats
            await asyncio.sleep(0.001)
            self.longest = max(self.longest, self._beats - before)
            self.turns += 1


async def require_lanes_freed(model: Any, steps: int) -> None:
    """Require that lanes are freed within one step after the engine learns that its caller left.

    The engine learns it when the framework closes the stream: a few turns of the event loop later,
    more on a busy machine, and long before a text of 800 letters ends. `steps` is the number of
    steps when the stream was left.
    """
    engine = model.engine()
    async with asyncio.timeout(9):
        while engine.status().lanes:
            await asyncio.sleep(0.001)
        learnt = engine.status().steps
        while not engine.status().idle:
            await asyncio.sleep(0.001)
    assert learnt < steps + 100
    assert engine.status().steps <= learnt + 1
    assert lanes_in_use(engine) == 0


async def running(model: Any) -> Any:
    """Return the engine of a model, once it generates."""
    engine = model.engine()
    before = engine.status().steps
    async with asyncio.timeout(9):
        while engine.status().steps < before + 3:
            await asyncio.sleep(0.001)
    return engine


@contextmanager
def slow_prompts(model: Any) -> Iterator[tuple[threading.Event, list[bool]]]:
    """Read no prompt before the event is set, nor in less than 0.4 s.

    The list gets an entry for each prompt.
    """
    read, release, released = PromptedScorer.read, threading.Event(), list[bool]()

    def slow(*given: Any) -> Any:
        released.append(release.wait(20))
        time.sleep(0.4)
        return read(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PromptedScorer, "read", slow)
        yield release, released
