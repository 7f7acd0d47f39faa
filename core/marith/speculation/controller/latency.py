"""What a pass costs by how many tokens it computes, measured as it goes."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from statistics import median_low

_EXACT, _PER_OCTAVE, _KEPT = 16, 4, 9


class PassTimes:
    """What a pass of one scorer costs, by how many tokens it computes. State: its last passes.

    Counts of tokens up to 16 each have a bucket of their own, larger ones four an octave. A bucket
    keeps its last nine passes and answers with their lower median, since what disturbs a timing
    makes it longer. Where a larger bucket would cost less than a smaller one, both answer with
    the median of their passes together (pool adjacent violators, in the L1 norm).
    """

    def __init__(self) -> None:
        self._buckets: dict[int, deque[tuple[int, float]]] = {}
        self._tokens: list[int] = []
        self._seconds: list[float] = []
        self._stale = False

    def note(self, tokens: int, seconds: float) -> None:
        """A pass of `tokens` tokens took `seconds`. Raises ValueError for what cannot be."""
        if tokens < 1:
            raise ValueError(f"a pass computes at least one token, not {tokens!r}")
        if not 0 <= seconds < math.inf:
            raise ValueError(f"a pass takes a finite number of seconds, not {seconds!r}")
        kept = self._buckets.setdefault(_bucket(tokens), deque(maxlen=_KEPT))
        kept.append((tokens, seconds))
        self._stale = True

    def cost(self, tokens: int) -> float | None:
        """Seconds that a pass of `tokens` tokens is expected to take; None before the first note.

        Never falls as `tokens` grows. Linear between measured buckets; below the smallest its cost,
        above the largest proportional to the tokens.
        """
        if self._stale:
            self._fit()
        measured, seconds = self._tokens, self._seconds
        if not measured:
            return None
        right = bisect_left(measured, tokens)
        if right == len(measured):
            return seconds[-1] * (tokens / measured[-1])
        if right == 0 or measured[right] == tokens:
            return seconds[right]
        left = right - 1
        share = (tokens - measured[left]) / (measured[right] - measured[left])
        # Rounding must not carry a point past the next one: costs never fall.
        rise = seconds[left] + share * (seconds[right] - seconds[left])
        return min(rise, seconds[right])

    @property
    def least(self) -> int | None:
        """The fewest tokens that a noted pass computed; None before the first note."""
        measured = [tokens for passes in self._buckets.values() for tokens, _ in passes]
        return min(measured, default=None)

    def _fit(self) -> None:
        """The curve's points anew: one a bucket, at the median of its tokens."""
        blocks: list[tuple[float, list[int], list[float]]] = []
        for _, kept in sorted(self._buckets.items()):
            at = [median_low([tokens for tokens, _ in kept])]
            taken = [seconds for _, seconds in kept]
            value = median_low(taken)
            while blocks and blocks[-1][0] > value:
                _, at_before, taken_before = blocks.pop()
                at, taken = at_before + at, taken_before + taken
                value = median_low(taken)
            blocks.append((value, at, taken))
        self._tokens = [tokens for _, at, _ in blocks for tokens in at]
        self._seconds = [value for value, at, _ in blocks for _ in at]
        self._stale = False


def _bucket(tokens: int) -> int:
    if tokens <= _EXACT:
        return tokens
    return _EXACT + math.ceil(_PER_OCTAVE * math.log2(tokens / _EXACT))
