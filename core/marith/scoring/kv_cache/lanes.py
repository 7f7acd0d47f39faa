"""Which lane lies in which row of a cache, what it holds, and which lanes make room for others."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from marith.scoring.kv_cache.ragged_cache import KVCache

IDLE_LANES = 64
SPARE_ROWS = 8
TAIL = 16  # so many tokens are computed again sooner than copied


@dataclass(slots=True)
class Lane:
    """A row of the cache, and the tokens whose keys and values it holds.

    `weights` names those that they were computed by: lanes of the same weights may copy from each
    other. `prompt` is the one asked last, which need not be compared again: it cannot change.
    """

    row: int
    weights: Hashable = None
    owner: Hashable | None = None
    tokens: list[int] = field(default_factory=list)
    used: int = 0
    prompt: tuple[int, ...] | None = None

    def lacks_one(
        self, weights: Hashable, prompt: Sequence[int], continuation: Sequence[int]
    ) -> bool:
        """Whether it holds all of a text but the last token of its continuation.

        Also False where the prompt is not the one that was compared last; `cut` compares it.
        """
        if prompt is not self.prompt or weights != self.weights or not continuation:
            return False
        start = len(prompt)
        as_long = len(self.tokens) == start + len(continuation) - 1
        return as_long and self.tokens[start:] == continuation[:-1]

    def cut(self, prompt: Sequence[int], continuation: Sequence[int]) -> None:
        """Drop what it has not in common with a text."""
        tokens, start = self.tokens, len(prompt)
        if prompt is not self.prompt:
            self.prompt = prompt if isinstance(prompt, tuple) else None
            if (kept := common(tokens, list(prompt))) < start:
                del tokens[kept:]
        after, asked = tokens[start:], list(continuation)
        if after != asked[: len(after)]:
            del tokens[start + common(after, asked) :]


class Lanes:
    """The rows of a cache, given out by owner and kept when they are released.

    Lanes that nobody holds stay while the cache weighs at most `most_bytes`, the longest unused
    making room first; lanes in use stay whatever they weigh. Changes state, never an answer.
    """

    def __init__(self, cache: KVCache, most_bytes: int) -> None:
        self.cache = cache
        self.most_bytes = most_bytes
        self._all: list[Lane] = []  # by row
        self.held: dict[Hashable, Lane] = {}  # by owner
        self._clock = 0

    def __iter__(self) -> Iterator[Lane]:
        return iter(self._all)

    @property
    def busy(self) -> int:
        """How many lanes are held by someone."""
        return len(self.held)

    def take(
        self,
        owner: Hashable,
        weights: Hashable,
        prompt: Sequence[int],
        continuation: Sequence[int] = (),
    ) -> Lane:
        """The owner's lane, cut back to what it has in common with the text asked for."""
        lane = self.held.get(owner)
        if lane is None:
            lane = self.held[owner] = self._free_lane(weights, [*prompt, *continuation])
            lane.owner = owner
        if lane.weights != weights:
            lane.tokens.clear()
            lane.weights = weights
        self._clock += 1
        lane.used = self._clock
        lane.cut(prompt, continuation)
        return lane

    def copy_common(self, lane: Lane, tokens: list[int]) -> int:
        """Copy what another lane holds of these tokens where it is worth it. Returns how many."""
        held = len(lane.tokens)
        best, length = self._nearest(lane.weights, tokens, self._all)
        if best is None or length < held + TAIL:
            return 0
        best.used = self._clock
        self.cache.copy(best.row, lane.row, length)
        lane.tokens, lane.prompt = tokens[:length], None
        return length - held

    def release(self, owner: Hashable) -> None:
        """The lane stays as it is while there is memory for it: another text may continue it."""
        lane = self.held.pop(owner, None)
        if lane is not None:
            lane.owner = None
            self._clock += 1
            lane.used = self._clock
            if not self.held:  # nobody asks soon, and so nobody else would make room
                self.make_room(0)

    def make_room(self, longest: int) -> None:
        """Rows for every lane and positions for the longest; idle lanes go where that is much."""
        cache = self.cache
        fits = cache.bytes_of(cache.rows, cache.capacity) <= self.most_bytes
        if fits and len(self._all) <= cache.rows and longest <= cache.capacity:
            return
        idle = sorted((lane for lane in self._all if lane.owner is None), key=lambda n: -n.used)
        while idle and self._bytes(longest) > self.most_bytes:
            self._drop(idle.pop())
        rows, capacity = len(self._all), self._longest(longest)
        if self._bytes(longest) < cache.bytes_of(cache.rows, cache.capacity) > self.most_bytes:
            cache.resize(rows, _roomy(capacity))
            return
        capacity = cache.capacity if capacity <= cache.capacity else _roomy(capacity)
        if rows <= cache.rows:
            rows = cache.rows
        elif cache.bytes_of(rows + SPARE_ROWS, capacity) <= self.most_bytes:
            rows += SPARE_ROWS
        cache.resize(rows, capacity)

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
            self._swap(stray, other)

    def forget(self) -> None:
        """Drop all lanes and what they hold; an owner gets another lane with its next question."""
        self._all, self.held = [], {}
        self.cache.resize(0, 0)

    def _free_lane(self, weights: Hashable, tokens: list[int]) -> Lane:
        """A lane that these tokens go on from, a new one while few lie idle, or the oldest."""
        idle = [lane for lane in self._all if lane.owner is None]
        best, length = self._nearest(weights, tokens, idle)
        if best is not None and length and len(best.tokens) - length < TAIL:
            return best
        capacity = max(self.cache.capacity, _roomy(len(tokens)))
        is_full = self.cache.bytes_of(len(self._all) + 1, capacity) > self.most_bytes
        if idle and (is_full or len(idle) >= IDLE_LANES):
            return min(idle, key=lambda lane: lane.used)
        lane = Lane(row=len(self._all))
        self._all.append(lane)
        return lane

    def _nearest(
        self, weights: Hashable, tokens: list[int], lanes: Sequence[Lane]
    ) -> tuple[Lane | None, int]:
        """The lane with the longest common prefix, and its length."""
        alike = ((common(n.tokens, tokens), n.used, n) for n in lanes if n.weights == weights)
        length, _, best = max(alike, key=lambda item: item[:2], default=(0, 0, None))
        return best, length

    def _longest(self, asked: int) -> int:
        return max([asked, *(len(lane.tokens) for lane in self._all)])

    def _bytes(self, asked: int) -> int:
        return self.cache.bytes_of(len(self._all), _roomy(self._longest(asked)))

    def _drop(self, lane: Lane) -> None:
        """Forget a lane; the last row moves into its place."""
        last = self._all[-1]
        if last is not lane:
            self.cache.copy(last.row, lane.row, len(last.tokens))
            self._all[lane.row], last.row = last, lane.row
        self._all.pop()

    def _swap(self, a: Lane, b: Lane) -> None:
        self.cache.swap(a.row, b.row, max(len(a.tokens), len(b.tokens)))
        self._all[a.row], self._all[b.row] = b, a
        a.row, b.row = b.row, a.row


def common(kept: list[int], asked: list[int]) -> int:
    """The length of the common prefix, by halving: slices compare faster than tokens."""
    low, high = 0, min(len(kept), len(asked))
    if asked[:high] == kept[:high]:
        return high
    while low < high - 1:
        middle = (low + high) // 2
        if asked[low:middle] == kept[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _roomy(positions: int) -> int:
    """With room to grow: a cache that grew at every token would copy itself at every token."""
    return -(-max(64, positions * 5 // 4) // 64) * 64
