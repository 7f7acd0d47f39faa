"""How likely drafted tokens are to be accepted, measured while texts are generated."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Hashable
from typing import TypeVar

MOST_KEYS = 1024
"""How many keys are remembered; the least recently used goes first."""

_MEMORY, _PRIOR_WORTH = 200, 4.0
_ROUNDING = 1e-3
_CONFIDENCES = (0.25, 0.5, 0.75, 0.9, 0.97, 0.99)

_Value = TypeVar("_Value")


class Acceptance:
    """How likely a drafted token is to be accepted, by key: moving averages of observations.

    State: a sum and a weight for each of at most `most_keys` keys. The weight of an observation
    falls exponentially, so that about the last 200 count; a new key begins with `prior`, which
    weighs as much as four observations.
    """

    def __init__(self, prior: float = 0.5, most_keys: int = MOST_KEYS) -> None:
        if not 0 <= prior <= 1:
            raise ValueError(f"a prior acceptance lies in [0, 1], not {prior!r}")
        self._prior = prior
        self._most_keys = at_least_one(most_keys)
        self._seen: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def note(self, key: Hashable, overlap: float) -> None:
        """Add an observation: Σ min(target, draft), in [0, 1], at an evaluated position.

        Sums in float32 that exceed the bounds by rounding are clipped; others raise ValueError.
        """
        if not -_ROUNDING <= overlap <= 1 + _ROUNDING:
            raise ValueError(f"an overlap of distributions lies in [0, 1], not {overlap!r}")
        total, weight = self._seen.get(key, (_PRIOR_WORTH * self._prior, _PRIOR_WORTH))
        decay = 1 - 1 / _MEMORY
        updated = (total * decay + min(1.0, max(0.0, overlap)), weight * decay + 1)
        remember(self._seen, key, updated, self._most_keys)

    def of(self, key: Hashable) -> float:
        """The acceptance expected at the next position, in [0, 1]."""
        if key not in self._seen:
            return self._prior
        self._seen.move_to_end(key)
        total, weight = self._seen[key]
        return total / weight


def confidence_bucket(confidence: float) -> int:
    """A key for `Acceptance`, 0 to 6, from a proposer's confidence in [0, 1]; finer near 1."""
    return bisect_right(_CONFIDENCES, confidence)


def remember(
    values: OrderedDict[Hashable, _Value], key: Hashable, value: _Value, most: int
) -> None:
    """Store a value as the last used, and drop the least recently used beyond `most`."""
    values[key] = value
    values.move_to_end(key)
    if len(values) > most:
        values.popitem(last=False)


def at_least_one(number: int) -> int:
    """The number, unchanged. Raises ValueError for one below 1."""
    if number < 1:
        raise ValueError(f"this is a whole number from 1, not {number!r}")
    return number
