"""Random numbers as a pure function of seed, place and use.

By the counter-based generator Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
1, 2, 3", 2011): nothing is kept between two numbers, so that those of many requests are computed
together, in any order, and again.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Word: TypeAlias = Any  # bits of one row, an int; or of each of many, an array of uint64 [rows]

KEEP, DRAW = 0, 1  # the columns of `uniform`: whether a token stays, and which token is drawn
FEW = 4  # up to so many rows, Python's integers are faster than arrays
ROUNDS = 10
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
INCREMENTS = 0x9E3779B9, 0xBB67AE85  # of the key, each round: the golden ratio, and √3 − 1
LOW_32, LOW_64 = 2**32 - 1, 2**64 - 1


@dataclass(frozen=True, slots=True)
class Draws:
    """Which random numbers a text uses next, at whatever place.

    With `by_place` each place has one number, which says what is drawn there, however often it is
    tried. Otherwise every trial has numbers that no other had. A text that has gone back has
    numbers that it had not before.
    """

    seed: int
    by_place: bool
    use: int = 0

    def after_trial(self) -> Draws:
        """What is used once a trial is over."""
        return self if self.by_place else replace(self, use=self.use + 1)

    def after_rewind(self) -> Draws:
        """What is used once a text has gone back."""
        return replace(self, use=self.use + 1)


def fresh_seed() -> int:
    """A seed of 64 bits, for a request that has none."""
    return secrets.randbits(64)


def uniform(
    seeds: Sequence[int], places: Sequence[int], uses: Sequence[int]
) -> NDArray[np.float64]:
    """Two numbers from [0, 1) for each row, [rows, 2], of 53 bits each; see `KEEP` and `DRAW`.

    A seed is a key, of which all 64 bits count, a place and a use are the counter: both from 0.
    """
    if len(seeds) <= FEW:
        rows = zip(seeds, places, uses, strict=True)
        return np.array([_pair(seed & LOW_64, place, use) for seed, place, use in rows])
    keys = np.array([seed & LOW_64 for seed in seeds], np.uint64)
    return np.stack(_pair(keys, np.array(places, np.uint64), np.array(uses, np.uint64)), axis=1)


def philox(counter: Sequence[Word], key: Sequence[Word]) -> tuple[Word, Word, Word, Word]:
    """Four random words of 32 bits from four of a counter and two of a key: Philox4x32-10."""
    a, b, c, d = counter
    left, right = key
    for _ in range(ROUNDS):
        first, second = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a, b = (second >> 32) ^ b ^ left, second & LOW_32
        c, d = (first >> 32) ^ d ^ right, first & LOW_32
        left, right = (left + INCREMENTS[0]) & LOW_32, (right + INCREMENTS[1]) & LOW_32
    return a, b, c, d


def _pair(seed: Word, place: Word, use: Word) -> tuple[Any, Any]:
    """From the lower and the upper 32 of 64 bits of each."""
    counter = place & LOW_32, place >> 32, use & LOW_32, use >> 32
    a, b, c, d = philox(counter, (seed & LOW_32, seed >> 32))
    return _fraction(a, b), _fraction(c, d)


def _fraction(high: Word, low: Word) -> Any:
    """A number from [0, 1), by the upper 53 of 64 bits."""
    return ((high << 32 | low) >> 11) * 2.0**-53
