"""Random numbers as a pure function of seed, place and use.

The generator is Philox4x32-10, which is counter-based (Salmon et al., "Parallel random numbers: as
easy as 1, 2, 3", 2011). It has no state, so the numbers of many requests can be computed together,
in any order, and again.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# A word is an int for one row, or an array of uint64 [rows] for many rows.
Word: TypeAlias = Any

# The columns of `uniform`: KEEP decides whether a token stays, and DRAW which token is drawn.
KEEP, DRAW = 0, 1
# Up to this number of rows, Python's integers are faster than arrays.
FEW = 4
ROUNDS = 10
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
# These are added to the key in each round: the golden ratio, and √3 − 1.
INCREMENTS = 0x9E3779B9, 0xBB67AE85
LOW_32, LOW_64 = 2**32 - 1, 2**64 - 1


@dataclass(frozen=True, slots=True)
class Draws:
    """Selects the random numbers that a text uses next, at every place.

    With `by_place`, all verifications of a place use the same numbers, so drafts do not change the
    text. Otherwise every verification uses new numbers. After a rewind, the numbers are new in both
    cases.
    """

    seed: int
    by_place: bool
    use: int = 0

    def after_trial(self) -> Draws:
        """Return the draws for the next verification."""
        return self if self.by_place else self.after_rewind()

    def after_rewind(self) -> Draws:
        """Return the draws for the text after a rewind."""
        return Draws(self.seed, self.by_place, self.use + 1)


def fresh_seed() -> int:
    """Return a random seed of 64 bits, for a request without a seed."""
    return secrets.randbits(64)


def uniform(
    seeds: Sequence[int], places: Sequence[int], uses: Sequence[int]
) -> NDArray[np.float64]:
    """Return two numbers from [0, 1) for each row, [rows, 2], of 53 bits each.

    The columns are `KEEP` and `DRAW`. The key is the seed, with all of its 64 bits. The counter is
    the place and the use.
    """
    if len(seeds) <= FEW:
        rows = zip(seeds, places, uses, strict=True)
        return np.array([_pair(seed & LOW_64, place, use) for seed, place, use in rows])
    keys = np.array([seed & LOW_64 for seed in seeds], np.uint64)
    return np.stack(_pair(keys, np.array(places, np.uint64), np.array(uses, np.uint64)), axis=1)


def philox(counter: Sequence[Word], key: Sequence[Word]) -> tuple[Word, Word, Word, Word]:
    """Return four random words of 32 bits, from a counter of four words and a key of two words.

    This is Philox4x32-10.
    """
    a, b, c, d = counter
    left, right = key
    for _ in range(ROUNDS):
        first, second = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a, b = (second >> 32) ^ b ^ left, second & LOW_32
        c, d = (first >> 32) ^ d ^ right, first & LOW_32
        left, right = (left + INCREMENTS[0]) & LOW_32, (right + INCREMENTS[1]) & LOW_32
    return a, b, c, d


def _pair(seed: Word, place: Word, use: Word) -> tuple[Any, Any]:
    """Return the two numbers of a row. Seed, place and use have 64 bits."""
    counter = place & LOW_32, place >> 32, use & LOW_32, use >> 32
    a, b, c, d = philox(counter, (seed & LOW_32, seed >> 32))
    return _fraction(a, b), _fraction(c, d)


def _fraction(high: Word, low: Word) -> Any:
    """Return a number from [0, 1), made of the upper 53 of 64 bits."""
    return ((high << 32 | low) >> 11) * 2.0**-53
