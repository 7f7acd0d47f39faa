"""Means with their intervals, and paired differences between formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats

stats: Any = scipy.stats  # which is not typed

RESAMPLES = 2000
CONFIDENCE = 0.95
_OUTLIER_SHARE = 0.2  # of the mean: as much as one text may add to it without a mark
_BATCH = 2**20  # numbers that are in memory together


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean of a measure for a formula over `count` prompts, and the median.

    The mean lies between `low` and `high` with a confidence of 95 %. `outlier_dominated` is True if
    the mean without the largest value is more than a fifth lower. The numbers are NaN if `count` is
    0.
    """

    mean: float
    low: float
    high: float
    median: float
    count: int
    outlier_dominated: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """By how much a formula's mean is higher than the first formula's, prompt by prompt.

    The difference lies between `low` and `high` with a confidence of 95 %; `p` is of a permutation
    test that flips the signs of the differences, two-sided, and not corrected for many formulas.
    """

    mean: float
    low: float
    high: float
    p: float


def estimate(values: Sequence[float]) -> Estimate:
    """Return the estimate from `values`, one number per prompt."""
    if not values:
        return Estimate(math.nan, math.nan, math.nan, math.nan, 0)
    mean, largest = float(np.mean(values)), max(values)
    rest = (sum(values) - largest) / max(1, len(values) - 1)
    outlier_dominated = len(values) > 2 and mean > 0 and rest < (1 - _OUTLIER_SHARE) * mean
    return Estimate(
        mean, *interval(values), float(np.median(values)), len(values), outlier_dominated
    )


def difference(first: Sequence[float], others: Sequence[float]) -> Difference:
    """Return the paired difference of two formulas' numbers, prompt by prompt."""
    apart = [after - before for before, after in zip(first, others, strict=True)]
    if not apart:
        return Difference(math.nan, math.nan, math.nan, math.nan)
    if len(apart) == 1 or not any(apart):
        mean = float(np.mean(apart))
        return Difference(mean, *interval(apart), 1.0)
    tested = stats.permutation_test(
        (np.asarray(apart),), np.mean, permutation_type="samples", n_resamples=9_999,
        batch=max(1, _BATCH // len(apart)), rng=np.random.default_rng(0),
    )  # fmt: skip
    return Difference(float(np.mean(apart)), *interval(apart), float(tested.pvalue))


def interval(values: Sequence[float], resamples: int = RESAMPLES) -> tuple[float, float]:
    """Return where the mean lies with a confidence of 95 %, by the bootstrap (Efron, 1979).

    The same values have the same interval.
    """
    if len(values) == 1:
        return float(values[0]), float(values[0])
    with np.errstate(invalid="ignore"):  # scipy's own interval of infinite means, unused here
        means = stats.bootstrap(
            (np.asarray(values, dtype=float),), np.mean, n_resamples=resamples,
            batch=max(1, _BATCH // len(values)), method="percentile",
            rng=np.random.default_rng(0),
        ).bootstrap_distribution  # fmt: skip
    # A mean that was drawn, not one between two: between infinite ones lies no number.
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], method="nearest")
    return float(low), float(high)


def spearman(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return the correlation of the ranks; equal values share theirs. NaN where all are equal."""
    if len(set(xs)) == 1 or len(set(ys)) == 1:
        return math.nan
    return float(stats.spearmanr(xs, ys).statistic)
