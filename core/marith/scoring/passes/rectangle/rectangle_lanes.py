"""Lanes as rows of one rectangle of keys and values."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from marith.scoring.lane_text import LaneText
from marith.scoring.passes.lanes import Lane, Lanes, Rectangle, allocating, roomy
from marith.scoring.passes.layer_masks import LayerMasks, Mask
from marith.scoring.passes.rectangle.rectangle_cache import KVCache, power_of_two

# A rectangle that gets more rows gets this number of spare rows too, because growing copies it.
SPARE_ROWS = 8
# The capacity grows in steps of this number of tokens.
STEP = 64
# At most this number of lanes moves before a pass of fixed shape. Often many texts end at once, and
# the others end soon after them.
MOVES = 8


class RectangleLanes(Lanes):
    """Lanes as the first rows of one cache. A common prefix is copied.

    `nbytes` counts the whole rectangle, with the rows and positions that no lane needs.
    """

    def __init__(
        self, cache: KVCache, most_bytes: int, masks: LayerMasks, device: torch.device
    ) -> None:
        super().__init__(most_bytes)
        self.cache: KVCache = cache
        self.masks = masks
        # The masks of a pass are computed on this device.
        self._device = device

    @property
    def nbytes(self) -> int:
        """The bytes of the rectangle."""
        return self.cache.bytes_of(self.cache.rows, self.cache.capacity)

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return an upper bound on the bytes of these texts: each row is as long as the longest."""
        longest = max((text.length for text in texts), default=0)
        return self.cache.bytes_of(len(texts), roomy(longest, STEP))

    def aim(self, rectangles: Sequence[Rectangle]) -> Mask:
        """Point the next pass at the lanes of one rectangle, and return its attention mask."""
        [rectangle] = rectangles
        slots, seen, fresh = rectangle.places, max(rectangle.end), rectangle.fresh
        if any(rectangle.padding):
            width, padding = rectangle.width, torch.tensor(rectangle.padding)[:, None]
            columns = torch.arange(width)
            unread = columns >= width - padding if fresh else columns < padding
            slots = slots.masked_fill(unread, self.cache.padding_slot)
        rows = [lane.row for lane in rectangle.lanes]
        self.cache.aim(rows, slots.to(self._device), seen, fresh)
        return self.masks.of(rectangle.places.to(self._device), seen, fresh)

    def make_room(self, longest: int) -> None:
        """Make room for every lane and for `longest` positions. Drop idle lanes over the limit."""
        cache, needed = self.cache, self._bytes(longest)
        suffices = len(self._all) <= cache.rows and longest <= cache.capacity
        # A rectangle that suffices does not grow, so no other model must make room for it.
        limit = self.cache_limit.room(self, min(needed, self.nbytes) if suffices else needed)
        if (suffices and self.nbytes <= limit) or self._shrink(longest, limit):
            return
        rows, capacity = len(self._all), self._longest(longest)
        capacity = cache.capacity if capacity <= cache.capacity else roomy(capacity, STEP)
        if rows <= cache.rows:
            rows = cache.rows
        elif cache.bytes_of(rows + SPARE_ROWS, capacity) <= limit:
            rows += SPARE_ROWS
        with allocating(self, longest):
            cache.resize(rows, capacity)

    def drop_idle(self, extra: int) -> None:
        """Free `extra` bytes by dropping idle lanes, the least recently used lane first.

        Fewer bytes are freed if the idle lanes hold fewer. If all lanes are in use, nothing
        changes, because they would take the memory again.
        """
        if not self.held or any(lane.owner is None for lane in self._all):
            self._shrink(0, self.nbytes - extra)

    def settle(self, lanes: Sequence[Lane], fixed: int = 0) -> None:
        """Move these lanes, if needed, to rows that one pass reads without a copy.

        The fixed shape of `fixed` texts reads the first rows, up to a power of two, so that only
        lanes beyond these rows move, some before each pass. Any other pass reads adjacent rows.
        """
        rows = sorted(lane.row for lane in lanes)
        if not rows:
            return
        if fixed:
            inside = range(power_of_two(fixed))
            settled = rows[-1] in inside
        else:
            first = min(rows[0], len(self._all) - len(rows))
            inside = range(first, first + len(rows))
            settled = rows[-1] - rows[0] == len(rows) - 1
        if settled:
            return
        asked = {*rows}
        strays = [lane for lane in lanes if lane.row not in inside]
        others = [self._all[row] for row in inside if row not in asked]
        # Lanes in use are moved last, because another pass may need them where they are.
        others.sort(key=lambda lane: lane.owner is not None)
        if fixed:
            # Empty lanes move at once, because it costs less than when they hold a text.
            held = [lane for lane in strays if lane.tokens]
            strays = [lane for lane in strays if not lane.tokens] + held[:MOVES]
        for stray, other in zip(strays, others, strict=False):
            self._exchange(stray, other)

    def forget(self) -> None:
        """Drop all lanes and their keys and values. An owner's next question gets a new lane."""
        self._all, self.held = [], {}
        self.cache.clear()

    def _new_lane(self, length: int, needed: bool) -> Lane | None:
        capacity = max(self.cache.capacity, roomy(length, STEP))
        nbytes = self.cache.bytes_of(len(self._all) + 1, capacity)
        full = not needed and nbytes > self.cache_limit.room(self, nbytes)
        return None if full else Lane(row=len(self._all))

    def _exchange(self, one: Lane, other: Lane) -> None:
        """Exchange the rows of two lanes."""
        a, b = len(one.tokens), len(other.tokens)
        if a and b:
            self.cache.swap(one.row, other.row, max(a, b))
        else:
            # An empty lane, such as one that begins, leaves nothing to be saved.
            self.cache.copy(one.row, other.row, a)
            self.cache.copy(other.row, one.row, b)
        self._all[one.row], self._all[other.row] = other, one
        one.row, other.row = other.row, one.row

    def _give(self, source: Lane, target: Lane, length: int) -> None:
        self.cache.copy(source.row, target.row, length)

    def _usable(self, lane: Lane, length: int) -> int:
        return length

    def _was_cut(self, lane: Lane, before: int) -> None:
        """Do nothing: the next pass overwrites the truncated positions."""

    def _longest(self, asked: int) -> int:
        return max([asked, *(len(lane.tokens) for lane in self._all)])

    def _bytes(self, asked: int) -> int:
        return self.cache.bytes_of(len(self._all), roomy(self._longest(asked), STEP))

    def _shrink(self, longest: int, limit: int) -> bool:
        """Drop idle lanes until the remaining lanes need at most `limit` bytes.

        Return True if the rectangle was larger than `limit`, and is smaller now.
        """
        idle = sorted((lane for lane in self._all if lane.owner is None), key=lambda n: -n.used)
        while idle and self._bytes(longest) > limit:
            self._drop(idle.pop())
        if not self._bytes(longest) < self.nbytes > limit:
            return False
        with allocating(self, longest):
            self.cache.resize(len(self._all), roomy(self._longest(longest), STEP))
        return True

    def _drop(self, lane: Lane) -> None:
        """Drop a lane. The last row moves into its place, so that all rows stay adjacent."""
        last = self._all[-1]
        if last is not lane:
            self.cache.copy(last.row, lane.row, len(last.tokens))
            self._all[lane.row], last.row = last, lane.row
        self._all.pop()
