"""Lanes as chains of segments: a prefix that several lanes share is held once."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from marith.scoring.lane_text import COPIED, LaneText, own_lengths
from marith.scoring.passes.chunked_prefill import CHUNK
from marith.scoring.passes.lanes import Lane, Lanes, Rectangle, allocating, in_one_row
from marith.scoring.passes.layer_masks import LayerMasks, Mask
from marith.scoring.passes.segments.segment_attention import Part, reads
from marith.scoring.passes.segments.segment_cache import PADDING_ROW, Filled, SegmentCache

# A segment of fewer tokens is copied into the lane's own row, and not read from another row.
SHORT = COPIED + 1
# This number of slots after a truncated text is not freed, because its next tokens need them.
SPARE_SLOTS = 64
# This number of tokens before a window is kept, because a truncated text sees them again.
KEPT_BEHIND = 64
# Tokens are freed in steps of at least this number.
STEP = 64


class SegmentLanes(Lanes):
    """Lanes with one row each, in which the slot of a token is its position.

    A lane that continues the text of another lane reads the common prefix from the other lane's
    row, and its own row begins after that prefix. A row that other lanes read may grow, but the
    tokens that they read are never overwritten. So a lane that is truncated below these tokens gets
    another row.

    Layers with windows free the tokens behind the widest window. While an answer is short, they
    keep the tokens that another text needs to continue the prompt.

    The lanes are for models on the CPU that compute attention by an attention function of
    transformers: see `by_segments`. One call reads at most `at_once` tokens of a long text.
    """

    most_idle = 256
    packs = True

    def __init__(
        self,
        model: Any,
        masks: LayerMasks,
        most_bytes: int,
        context_length: int,
        at_once: int = CHUNK,
    ) -> None:
        super().__init__(most_bytes)
        widths = masks.by_layer(model)
        windowed = [width is not None for width in widths]
        self.cache: SegmentCache = SegmentCache(windowed, model.device, context_length)
        self._window = max((width for width in widths if width), default=None)
        self._widest = most_held(self._window, at_once)
        self._masks = masks
        self._free: list[int] = []
        # This is the number of rows that were ever in use.
        self._rows = PADDING_ROW + 1

    @property
    def nbytes(self) -> int:
        """The bytes that all lanes hold."""
        return _weight(self._all, self.cache)

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return an upper bound on the bytes of lanes of these texts; 0 before the first pass."""
        lengths, widest = [*own_lengths(texts)], self._widest
        return self.cache.bytes_of(sum(lengths), sum(min(one, widest) for one in lengths))

    def aim(self, rectangles: Sequence[Rectangle]) -> Mask:
        """Point the next pass at the lanes, and return the tensor that stands for its mask."""
        places = in_one_row([each.places for each in rectangles])
        end = max(max(each.end) for each in rectangles)
        self.cache.aim(in_one_row([_rows(each) for each in rectangles]), places, end)
        masks = {
            kind: _standing_for(places, [Part(one, reads(one, kind, size)) for one in rectangles])
            for kind, size in self._masks.widths.items()
        }
        return masks.get("", masks)

    def make_room(self, longest: int) -> None:
        """Make room for `longest` positions, and drop idle lanes over the limits.

        One limit is a number of bytes, and the other limit a number of idle lanes.
        """
        if self._window is not None:
            pass_by(self._all, self._window, self.cache)
        too_many = len(self._all) - len(self.held) - self.most_idle
        for lane in _unread(self._all)[:too_many] if too_many > 0 else ():
            self._drop(lane)
        nbytes = self.nbytes
        limit = self.cache_limit.room(self, nbytes)
        if nbytes > limit:
            self.drop_idle(nbytes - limit)
        with allocating(self, longest):
            self.cache.grow(self._rows, longest, self._spans())

    def drop_idle(self, extra: int) -> None:
        """Free `extra` bytes, or all bytes of idle lanes.

        First drop the idle lanes that no lane reads, the least recently used lane first. Then drop
        the idle lanes that only dropped lanes have read, and so on. At last truncate each idle lane
        that a lane in use reads to the tokens that are read.
        """
        while extra > 0 and (unread := _unread(self._all)):
            for lane in unread:
                if extra > 0:
                    extra -= self._drop(lane)
        for lane in self._all if extra > 0 else ():
            if lane.owner is None and len(lane.tokens) > (length := _read_until(lane, self._all)):
                del lane.tokens[length:]
                self.cache.give_back(lane.row, length)

    def settle(self, lanes: Sequence[Lane], fixed: int = 0) -> None:
        """Do nothing: lanes are read wherever they lie."""

    def forget(self) -> None:
        """Drop all lanes and their keys and values. An owner's next question gets a new lane."""
        self.cache.clear()
        self._all, self.held, self._free, self._rows = [], {}, [], PADDING_ROW + 1

    def _new_lane(self, length: int, needed: bool) -> Lane | None:
        nbytes = self.nbytes + self.cache.bytes_of(length, length)
        full = not needed and nbytes > self.cache_limit.room(self, nbytes)
        return None if full else Lane(row=self._free_row())

    def _usable(self, lane: Lane, length: int) -> int:
        return length if self._window is None or sees(lane, length, self._window) else 0

    def _give(self, source: Lane, target: Lane, length: int) -> None:
        if _read_until(target, self._all):
            self._leave_row(target)
        # A prefix that is read from another row has other last bits. While nobody else uses the
        # prefix it is copied, so that a request that is asked again gets the same text.
        alone = source.owner is None and not _read_until(source, self._all)
        self._begin(target, source, length, copies=alone)

    def _was_cut(self, lane: Lane, before: int) -> None:
        """Move the lane to another row if others read the truncated tokens of its row.

        If its own row has no tokens left, the row begins again at the new length.
        """
        length = len(lane.tokens)
        if length and not self._usable(lane, length):
            length = self._usable(lane, lane.start) if lane.start < length else 0
            # The tokens whose windows are lost cannot be continued, so they are read again.
            del lane.tokens[length:]
        if _read_until(lane, self._all) > length:
            self._begin(lane, self._leave_row(lane), length)
        elif length <= lane.start:
            self._begin(lane, lane.parent, length)
        elif before - length > SPARE_SLOTS:
            self.cache.give_back(lane.row, length, before)

    def _begin(self, lane: Lane, source: Lane | None, length: int, copies: bool = False) -> None:
        """Let the own row of a lane begin after the first `length` tokens of `source`.

        No other lane may be reading the row. If the segment of `source` is short, or with `copies`,
        copy the segment into the row.
        """
        self.cache.give_back(lane.row)
        lane.lost = 0
        # A short prefix may lie wholly in the rows that `source` itself reads.
        while source is not None and source.parent is not None and length <= source.start:
            source = source.parent
        if source is None or not length:
            lane.parent, lane.start = None, 0
        elif copies or length - source.start < SHORT:
            lane.parent, lane.start, lane.lost = source.parent, source.start, source.lost
            self.cache.copy(source.row, lane.row, source.start, length, source.lost)
        else:
            lane.parent, lane.start = source, length

    def _leave_row(self, lane: Lane) -> Lane:
        """Move a lane to another row, and return a new idle lane that has the old row.

        The lanes that have read the lane read the idle lane from now on.
        """
        readers = [other for other in self._all if other.parent is lane]
        # The lane may be truncated already, so the reader that reads most knows the tokens.
        last = max(readers, key=lambda reader: reader.start)
        kept = Lane(
            lane.row, last.key, tokens=last.tokens[: last.start], used=lane.used,
            parent=lane.parent, start=lane.start, lost=lane.lost,
        )  # fmt: skip
        for reader in readers:
            reader.parent = kept
        self._all.append(kept)
        self.cache.give_back(kept.row, len(kept.tokens))
        lane.row = self._free_row()
        return kept

    def _drop(self, lane: Lane) -> int:
        """Drop a lane that nobody reads, and return the number of bytes that it held."""
        self._all.remove(lane)
        self.cache.give_back(lane.row)
        heapq.heappush(self._free, lane.row)
        return _weight([lane], self.cache)

    def _free_row(self) -> int:
        # The lowest free row comes first, because one call reads rows that lie close together.
        if self._free:
            return heapq.heappop(self._free)
        self._rows += 1
        with allocating(self, 0):
            self.cache.grow(self._rows, 0, self._spans())
        return self._rows - 1

    def _spans(self) -> Iterator[Filled]:
        return ((lane.row, lane.start, len(lane.tokens)) for lane in self._all)


def _weight(lanes: Sequence[Lane], cache: SegmentCache) -> int:
    """Return the bytes that the rows of these lanes hold."""
    whole = sum(len(lane.tokens) - lane.start for lane in lanes)
    lost = sum(max(0, lane.lost - lane.start) for lane in lanes if lane.lost)
    return cache.bytes_of(whole, whole - lost)


def _unread(lanes: Sequence[Lane]) -> list[Lane]:
    """Return the idle lanes that no lane reads, least recently used first."""
    read = {id(lane.parent) for lane in lanes}
    idle = [lane for lane in lanes if lane.owner is None and id(lane) not in read]
    return sorted(idle, key=lambda lane: lane.used)


def _read_until(lane: Lane, lanes: Sequence[Lane]) -> int:
    """Return the number of a lane's tokens that other lanes read."""
    return max((other.start for other in lanes if other.parent is lane), default=0)


def most_held(window: int | None, at_once: int) -> int:
    """Return an upper bound on the number of tokens of a text that a layer with a window holds.

    It holds the window at the end of the text, the window at the end of the prompt, margins, and
    the `at_once` tokens that one call reads.
    """
    return sys.maxsize if window is None else 2 * window + KEPT_BEHIND + STEP + at_once


def sees(lane: Lane, length: int, window: int) -> bool:
    """Return True if the lane still holds the tokens that the token at place `length` sees."""
    while lane.parent is not None and length <= lane.start:
        lane = lane.parent
    return lane.lost <= max(lane.start, length - window)


def pass_by(lanes: Sequence[Lane], window: int, cache: SegmentCache) -> None:
    """Free the tokens behind the windows of all lanes.

    Tokens that another text still reads from a lane are kept. While the answer of a lane is shorter
    than a window, the tokens that a new text with the same prompt needs are kept too.
    """
    # This maps the id of each lane to the first position at which another text continues it.
    read: dict[int, int] = {}
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


def _rows(rectangle: Rectangle) -> Tensor:
    """Return the row to which each token is written, [texts, width]."""
    rows = torch.tensor([lane.row for lane in rectangle.lanes])[:, None].repeat(1, rectangle.width)
    for i, count in enumerate(rectangle.padding):
        rows[i, :count] = PADDING_ROW
    return rows


def _standing_for(places: Tensor, parts: Sequence[Part]) -> Tensor:
    """Return a tensor that models pass on as a mask. Its `parts` are the reads of attention."""
    texts, width = places.shape
    mask = torch.ones(texts, 1, width, 1, dtype=torch.bool)
    # Models pass the tensor on unchanged, so its attributes reach the attention function.
    mask.parts = parts  # type: ignore[attr-defined]
    return mask
