"""Lanes in the rows of one rectangle of keys and values: each as wide as the longest text."""

from __future__ import annotations

from collections.abc import Sequence

from marith.scoring.memory import Planned
from marith.scoring.passes.lanes import Lane, Lanes, allocating
from marith.scoring.passes.ragged_cache import KVCache

SPARE_ROWS = 8


class RectangleLanes(Lanes):
    """The rows of a cache that are read side by side; a prefix in common is copied.

    All of the rectangle counts, rows and positions that no lane needs included.
    """

    def __init__(self, cache: KVCache, most_bytes: int) -> None:
        super().__init__(most_bytes)
        self.cache = cache

    @property
    def nbytes(self) -> int:
        """How many bytes the rectangle takes."""
        return self.cache.bytes_of(self.cache.rows, self.cache.capacity)

    def memory(self, texts: Sequence[Planned]) -> int:
        """How many bytes lanes of these texts take at most: each as many as the longest."""
        longest = max((text.length for text in texts), default=0)
        return self.cache.bytes_of(len(texts), _roomy(longest))

    def make_room(self, longest: int) -> None:
        """Rows for every lane and positions for the longest; idle lanes go where that is much."""
        cache, needed = self.cache, self._bytes(longest)
        suffices = len(self._all) <= cache.rows and longest <= cache.capacity
        most = self.cache_limit.room(self, min(needed, self.nbytes) if suffices else needed)
        if (suffices and self.nbytes <= most) or self._shrink(longest, most):
            return
        rows, capacity = len(self._all), self._longest(longest)
        capacity = cache.capacity if capacity <= cache.capacity else _roomy(capacity)
        if rows <= cache.rows:
            rows = cache.rows
        elif cache.bytes_of(rows + SPARE_ROWS, capacity) <= most:
            rows += SPARE_ROWS
        with allocating(self, longest):
            cache.resize(rows, capacity)

    def drop_idle(self, extra: int) -> None:
        """Drop idle lanes, the longest unused first, and give back `extra` bytes or all they took.

        Where all lanes are in use nothing changes: they would take again what they gave.
        """
        if not self.held or any(lane.owner is None for lane in self._all):
            self._shrink(0, self.nbytes - extra)

    def settle(self, lanes: Sequence[Lane], front: bool = False) -> None:
        """Move these lanes side by side, so that a pass reads them where they lie.

        With `front` they lie in the first rows, as a pass of fixed shape expects them.
        """
        rows = sorted(lane.row for lane in lanes)
        if not rows or (rows[-1] - rows[0] == len(rows) - 1 and (rows[0] == 0 or not front)):
            return
        first = 0 if front else min(rows[0], len(self._all) - len(rows))
        inside = range(first, first + len(rows))
        asked = {lane.row for lane in lanes}
        strays = [lane for lane in lanes if lane.row not in inside]
        others = [self._all[row] for row in inside if row not in asked]
        for stray, other in zip(strays, others, strict=True):
            self.cache.swap(stray.row, other.row, max(len(stray.tokens), len(other.tokens)))
            self._all[stray.row], self._all[other.row] = other, stray
            stray.row, other.row = other.row, stray.row

    def forget(self) -> None:
        """Drop all lanes and what they hold; an owner gets another lane with its next question."""
        self._all, self.held = [], {}
        self.cache.clear()

    def _new_lane(self, length: int, needed: bool) -> Lane | None:
        capacity = max(self.cache.capacity, _roomy(length))
        weight = self.cache.bytes_of(len(self._all) + 1, capacity)
        full = not needed and weight > self.cache_limit.room(self, weight)
        return None if full else Lane(row=len(self._all))

    def _give(self, source: Lane, target: Lane, length: int) -> None:
        self.cache.copy(source.row, target.row, length)

    def _usable(self, lane: Lane, length: int) -> int:
        return length

    def _was_cut(self, lane: Lane, before: int) -> None:
        """The next pass writes over what was cut off."""

    def _longest(self, asked: int) -> int:
        return max([asked, *(len(lane.tokens) for lane in self._all)])

    def _bytes(self, asked: int) -> int:
        return self.cache.bytes_of(len(self._all), _roomy(self._longest(asked)))

    def _shrink(self, longest: int, most: int) -> bool:
        """Drop idle lanes while those that stay need more than `most` bytes.

        Whether the rectangle is smaller then, since it took more.
        """
        idle = sorted((lane for lane in self._all if lane.owner is None), key=lambda n: -n.used)
        while idle and self._bytes(longest) > most:
            self._drop(idle.pop())
        if not self._bytes(longest) < self.nbytes > most:
            return False
        with allocating(self, longest):
            self.cache.resize(len(self._all), _roomy(self._longest(longest)))
        return True

    def _drop(self, lane: Lane) -> None:
        """Forget a lane; the last row moves into its place."""
        last = self._all[-1]
        if last is not lane:
            self.cache.copy(last.row, lane.row, len(last.tokens))
            self._all[lane.row], last.row = last, lane.row
        self._all.pop()


def _roomy(positions: int) -> int:
    """With room to grow: a cache that grew at every token would copy itself at every token."""
    return -(-max(64, positions * 5 // 4) // 64) * 64
