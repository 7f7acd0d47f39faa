"""Many numbers in few: their mean, how sure it is, their median, and how many had no number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

DRAWS = 2000
SURE = 0.95

_MOST = 2**20  # numbers that are in memory together


@dataclass(frozen=True, slots=True)
class Figure:
    """What a measure says of a formula: over `count` prompts, while `missing` had no number.

    The mean lies between `low` and `high` with a confidence of 95 %. NaN where nothing counts.
    """

    mean: float
    low: float
    high: float
    median: float
    count: int
    missing: int


def figure(values: Sequence[float | None]) -> Figure:
    """Numbers, one a prompt, as a figure; None is counted as missing."""
    known = [value for value in values if value is not None and not math.isnan(value)]
    missing = len(values) - len(known)
    if not known:
        return Figure(math.nan, math.nan, math.nan, math.nan, 0, missing)
    low, high = interval(known)
    return Figure(float(np.mean(known)), low, high, float(np.median(known)), len(known), missing)


def interval(
    values: Sequence[float],
    weights: Sequence[float] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> tuple[float, float]:
    """Where the mean lies with a confidence of 95 %, by the bootstrap (Efron, 1979).

    The values are drawn anew `draws` times, each with its weight; the same for the same seed.
    """
    source = np.random.default_rng(seed)
    known = np.asarray(values, dtype=float)
    heavy = np.ones_like(known) if weights is None else np.asarray(weights, dtype=float)
    together = max(1, _MOST // len(known))
    means: list[float] = []
    for start in range(0, draws, together):
        count = min(together, draws - start)
        drawn = source.integers(0, len(known), (count, len(known)))
        means += np.average(known[drawn], axis=1, weights=heavy[drawn]).tolist()
    low, high = np.quantile(means, [(1 - SURE) / 2, (1 + SURE) / 2], method="nearest")
    return float(low), float(high)
