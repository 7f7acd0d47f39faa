"""Pause running requests between the steps of an engine, as a script says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from hypothesis import strategies as st

from marith import Engine
from marith.engine.loop import release
from marith.engine.turn import Turn
from marith.scoring.lane_text import LaneText
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.lanes import Lane
from marith.scoring.passes.rectangle.rectangle_lanes import RectangleLanes
from marith.scoring.passes.segments.segment_lanes import SegmentLanes
from marith.scoring.passes.states.state_runner import StateRunner
from marith.scoring.terms.tree_runner import TreeRunner


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
        check_counted(admission.active)
        admission._full = False
        if admission.active and (now := next(steps, None)):
            with admission.lock:
                running = [t for i, t in enumerate(admission.active) if i in now.which]
                paused = admission.pause(running)
            release(paused)
            if now.drops:
                drop_idle(engine)
            admission._full = now.holds and bool(admission.active)
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


def check_counted(turns: Sequence[Turn]) -> None:
    """Assert that running texts hold at most the tokens and bytes that are counted for them."""
    texts: dict[Any, list[LaneText]] = defaultdict(list)
    for turn in turns:
        for scorer, text in turn.job.prepared.texts(turn.counted):
            texts[scorer].append(text)
        for term, lane in turn.job.prepared.lanes.lanes.items():
            runner = getattr(turn.job.prepared.lanes.scorers[term], "runner", None)
            held = runner.lanes.held.get(lane) if isinstance(runner, CachedRunner) else None
            if held is not None and not turn.job.abandoned:
                assert len(held.tokens) <= len(lane.prompt) + turn.counted
    for scorer, planned in texts.items():
        # The bytes of a token are unknown before the first pass.
        if counted := scorer.memory(planned):
            held_bytes = bytes_in_use(scorer.runner)
            assert held_bytes <= counted


def bytes_in_use(runner: Any) -> int:
    """Return the bytes that the lanes in use of a runner hold, and those that they read."""
    match runner:
        case StateRunner():
            return sum(state.nbytes for state in runner.states.held.values())
        case CachedRunner(lanes=SegmentLanes() as lanes):
            return _bytes_of_segments(lanes)
        case CachedRunner(lanes=RectangleLanes() as lanes) | TreeRunner(lanes=lanes):
            lengths = [len(lane.tokens) for lane in lanes.held.values()]
            return lanes.cache.bytes_of(len(lengths), max(lengths, default=0))
    return 0


def _bytes_of_segments(lanes: SegmentLanes) -> int:
    # This maps each lane that is in use, or that a lane in use reads, to its tokens in use.
    ends: dict[Lane, int] = {}
    for lane in lanes.held.values():
        ends[lane] = len(lane.tokens)
        while lane.parent is not None:
            ends[lane.parent] = max(ends.get(lane.parent, 0), lane.start)
            lane = lane.parent
    whole = sum(end - lane.start for lane, end in ends.items())
    lost = sum(max(0, min(end, lane.lost) - lane.start) for lane, end in ends.items())
    return lanes.cache.bytes_of(whole, whole - lost)
