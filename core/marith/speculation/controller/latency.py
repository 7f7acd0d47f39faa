"""The cost of a pass by the number of its tokens, measured while texts are generated."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from statistics import median_low

_EXACT, _PER_OCTAVE, _KEPT = 16, 4, 9


class PassTimes:
    """The cost of a pass by the number of its tokens. State: the last passes.

    Each number of tokens up to 16 has its own bucket; larger numbers have four buckets an octave. A
    bucket keeps its last nine passes; its cost is their lower median, since a disturbance makes a
    timing longer. If a larger bucket would cost less than a smaller one, both have the median of
    their passes together (pool adjacent violators, in the L1 norm).
    """

    def __init__(self) -> None:
        self._buckets: dict[int, deque[tuple[int, float]]] = {}
        self._tokens: list[int] = []
        self._seconds: list[float] = []
        self._stale = False

    def note(self, tokens: int, seconds: float) -> None:
        """Add a pass that took `seconds`. Raises ValueError for numbers out of range."""
        if tokens < 1:
            raise ValueError(f"a pass computes at least one token, not {tokens!r}")
        if not 0 <= seconds < math.inf:
            raise ValueError(f"a pass takes a finite number of seconds, not {seconds!r}")
        passes = self._buckets.setdefault(_bucket(tokens), deque(maxlen=_KEPT))
        passes.append((tokens, seconds))
        self._stale = True

    def cost(self, tokens: int) -> float | None:
        """The expected seconds of a pass of `tokens` tokens; None before the first note.

        Never falls as `tokens` grows. Linear between measured buckets; below the smallest bucket it
        is that bucket's cost, above the largest it is proportional to the tokens.
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
        # Rounding must not lift a point above the next one: costs never fall.
        between = seconds[left] + share * (seconds[right] - seconds[left])
        return min(between, seconds[right])

    @property
    def least(self) -> int | None:
        """The fewest tokens that a noted pass computed; None before the first note."""
        measured = [tokens for passes in self._buckets.values() for tokens, _ in passes]
        return min(measured, default=None)

    def _fit(self) -> None:
        """Compute the points of the curve: one for each bucket, at the median of its tokens."""
        blocks: list[tuple[float, list[int], list[float]]] = []  # median, tokens, all timings
        for _, passes in sorted(self._buckets.items()):
            tokens = [median_low([count for count, _ in passes])]
            timings = [seconds for _, seconds in passes]
            median = median_low(timings)
            while blocks and blocks[-1][0] > median:
                _, tokens_before, timings_before = blocks.pop()
                tokens, timings = tokens_before + tokens, timings_before + timings
                median = median_low(timings)
            blocks.append((median, tokens, timings))
        self._tokens = [count for _, tokens, _ in blocks for count in tokens]
        self._seconds = [median for median, tokens, _ in blocks for _ in tokens]
        self._stale = False


def _bucket(tokens: int) -> int:
    if tokens <= _EXACT:
        return tokens
    return _EXACT + math.ceil(_PER_OCTAVE * math.log2(tokens / _EXACT))
