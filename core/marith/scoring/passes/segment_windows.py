"""What lies behind the windows of a text: given back, and so no longer there to go on from."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from marith.scoring.passes.chunked_prefill import CHUNK
from marith.scoring.passes.lanes import Lane
from marith.scoring.passes.segment_cache import SegmentCache

KEPT_BEHIND = 64  # so many tokens behind a window are kept, for a text that is cut back
STEP = 64  # so many are given back at once


def most_held(window: int | None) -> int:
    """How many tokens of a text its windows hold at most: one's own, a prompt's, and a chunk."""
    return sys.maxsize if window is None else 2 * window + KEPT_BEHIND + STEP + CHUNK


def sees(lane: Lane, length: int, window: int) -> bool:
    """Whether the windows of the token after `length` others of a lane are still held."""
    while lane.parent is not None and length <= lane.start:
        lane = lane.parent
    return lane.lost <= max(lane.start, length - window)


def pass_by(lanes: Sequence[Lane], window: int, cache: SegmentCache) -> None:
    """Give back what lies behind the windows of all lanes.

    What texts need that go on from a lane is kept: others that do so already, and, while its answer
    is shorter than a window, whoever begins with its prompt.
    """
    read: dict[int, int] = {}  # by lane, the first token after which another text goes on
    for lane in lanes:
        if lane.parent is not None:
            key = id(lane.parent)
            read[key] = min(read.get(key, lane.start), lane.start)
    for lane in lanes:
        end = len(lane.tokens)
        if lane.prompt is not None and end - len(lane.prompt) < window:
            end = min(end, len(lane.prompt))
        held = max(lane.start, lane.lost)
        behind = min(end, read.get(id(lane), end)) - window - KEPT_BEHIND
        if behind >= held + STEP:
            cache.pass_by(lane.row, held, behind)
            lane.lost = behind
