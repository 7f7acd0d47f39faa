"""How sure a comparison is: shares with their intervals, and the sign test."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

_SURE = 1.959963984540054  # standard deviations either side that hold 95 %


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole, and where it lies with a confidence of 95 %; NaN of nothing."""

    value: float
    low: float
    high: float


def share(count: int, whole: int) -> Share:
    """The share of a count, with Wilson's interval (1927), which never leaves [0, 1]."""
    if not whole:
        return Share(math.nan, math.nan, math.nan)
    value, square = count / whole, _SURE**2
    middle = (value + square / (2 * whole)) / (1 + square / whole)
    half = _SURE * math.sqrt(value * (1 - value) / whole + square / (4 * whole**2))
    half /= 1 + square / whole
    return Share(value, max(0.0, min(value, middle - half)), min(1.0, max(value, middle + half)))


def sign_test(won: int, lost: int) -> float:
    """How likely so uneven a score is among equals: two-sided and exact, draws left out."""
    tosses = won + lost
    tail = sum(math.comb(tosses, k) for k in range(min(won, lost) + 1))
    return min(1.0, float(Fraction(2 * tail, 2**tosses)))
