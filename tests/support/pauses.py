"""Pause running requests between the steps of an engine, as a script says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from hypothesis import strategies as st

from marith import Engine
from marith.engine.loop import release
from marith.engine.step import Turn
from marith.scoring.passes.cached_runner import CachedRunner


@dataclass(frozen=True, slots=True)
class Pause:
    """What happens before one step: which of the running requests are paused.

    With `drops`, all idle lanes are dropped, as if other texts needed the room. With `holds`, no
    request goes on before the next step, unless none runs.
    """

    which: frozenset[int]
    drops: bool = False
    holds: bool = False


def scripts(running: int = 4, steps: int = 24) -> st.SearchStrategy[list[Pause]]:
    """Draw a pause for each of some steps, which often pauses nothing."""
    some = st.frozensets(st.integers(0, running - 1), min_size=1)
    which = st.one_of(st.just(frozenset[int]()), some)
    return st.lists(st.builds(Pause, which, st.booleans(), st.booleans()), max_size=steps)


def seldom(seed: int, running: int = 32) -> Iterator[Pause]:
    """Yield pauses without end: one step in twenty pauses some of the running requests."""
    draw = Random(seed)
    while True:
        which = draw.sample(range(running), 3) if draw.random() < 0.05 else ()
        yield Pause(frozenset(which), drops=draw.random() < 0.02, holds=draw.random() < 0.3)


@contextmanager
def pausing(engine: Engine, script: Iterable[Pause]) -> Iterator[None]:
    """Follow a script from the first step at which a request runs, and check what is counted."""
    admission: Any = engine._loop.admission
    plain, steps = admission.admit, iter(script)

    def admit() -> bool:
        for turn in admission.active:
            check_counted(turn)
        if admission.active or admission.waiting:
            if now := next(steps, None):
                with admission.lock:
                    running = [t for i, t in enumerate(admission.active) if i in now.which]
                    paused = admission.pause(running)
                release(paused)
                if now.drops:
                    drop_idle(engine)
                admission._full = now.holds and bool(admission.active)
            else:
                admission._full = False
        return bool(plain())

    admission.admit = admit
    try:
        yield
    finally:
        del admission.admit


@torch.inference_mode()
def drop_idle(engine: Engine) -> None:
    """Drop all idle lanes of all models. For the engine's thread."""
    for keeper in engine._registry.cache_limit._alive():
        keeper.drop_idle(1 << 60)


def check_counted(turn: Turn) -> None:
    """Assert that no lane of a job holds more tokens than memory is counted for."""
    if turn.job.abandoned:
        return
    for term, lane in turn.job.prepared.lanes.lanes.items():
        runner = getattr(turn.job.prepared.lanes.scorers[term], "runner", None)
        held = runner.lanes.held.get(lane) if isinstance(runner, CachedRunner) else None
        if held is not None:
            assert len(held.tokens) <= len(lane.prompt) + turn.counted
