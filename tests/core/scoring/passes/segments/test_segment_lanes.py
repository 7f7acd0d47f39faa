"""Idle lanes of segments: positions that nobody reads are freed."""

from __future__ import annotations

import pytest
from support.runner_questions import ask, span_of, text

from marith.scoring.choose_runner import start_runner
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.segments.segment_cache import lazy
from marith.scoring.passes.segments.segment_lanes import SHORT, SPARE_SLOTS, SegmentLanes
from marith.testing import tiny_model

CONTEXT = 900
VOCAB = 28


def started() -> tuple[CachedRunner, SegmentLanes]:
    runner = start_runner(tiny_model(context_length=CONTEXT), VOCAB, CONTEXT)
    assert isinstance(runner, CachedRunner)
    assert isinstance(runner.lanes, SegmentLanes)
    return runner, runner.lanes


def written(lanes: SegmentLanes) -> int:
    """How many positions of the first layer hold anything but zeros."""
    return int(lanes.cache.layers[0].keys.ne(0).any(dim=-1).any(dim=1).sum())


def test_an_idle_lane_that_others_read_keeps_what_they_read() -> None:
    runner, lanes = started()
    ask(runner, [span_of("long", text(800))])
    ask(runner, [span_of("short", [*text(200), 1, 2, 3])])
    runner.release("long")
    held = lanes.nbytes
    lanes.cache_limit.most_bytes = 1
    [answer] = ask(runner, [span_of("short", [*text(200), 1, 2, 3, 4])])
    assert answer.cached == 203
    assert lanes.nbytes < held / 3
    assert lanes.nbytes == lanes.cache.bytes_of(204, 204)
    if lazy(lanes.cache.layers[0].keys.device):
        assert written(lanes) < 204 + 2 * SPARE_SLOTS + SHORT


@pytest.mark.skipif(not lazy(tiny_model().device), reason="no memory is given back by pages")
def test_a_row_that_its_lane_leaves_frees_the_positions_that_nobody_reads() -> None:
    runner, lanes = started()
    ask(runner, [span_of("first", text(800))])
    ask(runner, [span_of("second", [*text(200), 1, 2, 3])])
    ask(
        runner, [span_of("first", [*text(100), 4])]
    )  # whose row goes to a lane that the second reads
    assert written(lanes) < 200 + 3 + 1 + 2 * SPARE_SLOTS + SHORT
    [answer] = ask(runner, [span_of("second", [*text(200), 1, 2, 3, 4])])
    assert answer.cached == 203
