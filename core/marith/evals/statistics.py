"""Means with confidence intervals, and paired differences between formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats

# scipy has no type hints.
stats: Any = scipy.stats

RESAMPLES = 2000
CONFIDENCE = 0.95
# A text dominates a mean if the mean without the text is lower by more than this share.
_OUTLIER_SHARE = 0.2
# At most this many resampled numbers are in memory at once.
_BATCH = 2**20


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean of a measure over `count` prompts, its confidence interval, and the median.

    The 95 % interval of the mean is from `low` to `high`. `outlier_dominated` is True if the mean
    without the largest value is more than a fifth lower. The numbers are NaN if `count` is 0.
    """

    mean: float
    low: float
    high: float
    median: float
    count: int
    outlier_dominated: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean difference of a formula from the first formula, paired by prompt.

    The 95 % interval of the difference is from `low` to `high`. `p` is the two-sided p-value of a
    permutation test that flips the signs of differences. It is not corrected for multiple tests.
    """

    mean: float
    low: float
    high: float
    p: float


def estimate(values: Sequence[float]) -> Estimate:
    """Return the estimate from `values`, which has one number per prompt."""
    if not values:
        return Estimate(math.nan, math.nan, math.nan, math.nan, 0)
    mean, largest = float(np.mean(values)), max(values)
    rest = (sum(values) - largest) / max(1, len(values) - 1)
    # With two values, one is always a large part of the mean, so neither is marked. A mean of zero
    # or below has no shares.
    outlier_dominated = len(values) > 2 and mean > 0 and rest < (1 - _OUTLIER_SHARE) * mean
    return Estimate(
        mean, *interval(values), float(np.median(values)), len(values), outlier_dominated
    )


def difference(first: Sequence[float], others: Sequence[float]) -> Difference:
    """Return the difference of `others` from `first`, which have one number per prompt."""
    apart = [after - before for before, after in zip(first, others, strict=True)]
    if not apart:
        return Difference(math.nan, math.nan, math.nan, math.nan)
    # By symmetry p is 1 if there is only one difference, or if all differences are zero.
    if len(apart) == 1 or not any(apart):
        mean = float(np.mean(apart))
        return Difference(mean, *interval(apart), 1.0)
    tested = stats.permutation_test(
        (np.asarray(apart),), np.mean, permutation_type="samples", n_resamples=9_999,
        batch=max(1, _BATCH // len(apart)), rng=np.random.default_rng(0),
    )  # fmt: skip
    return Difference(float(np.mean(apart)), *interval(apart), float(tested.pvalue))


def interval(values: Sequence[float], resamples: int = RESAMPLES) -> tuple[float, float]:
    """Return the 95 % confidence interval of the mean, by the bootstrap (Efron, 1979).

    The same `values` always give the same interval, because the resampling has a fixed seed.
    """
    if len(values) == 1:
        return float(values[0]), float(values[0])
    # For infinite means scipy warns while it computes its own interval, which is not used here.
    with np.errstate(invalid="ignore"):
        means = stats.bootstrap(
            (np.asarray(values, dtype=float),), np.mean, n_resamples=resamples,
            batch=max(1, _BATCH // len(values)), method="percentile",
            rng=np.random.default_rng(0),
        ).bootstrap_distribution  # fmt: skip
    # "nearest" takes one of the means, since interpolation between infinite means gives NaN.
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], method="nearest")
    return float(low), float(high)


def spearman(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return Spearman's rank correlation, or NaN if all `xs` or all `ys` are equal.

    Equal values share a rank.
    """
    if len(set(xs)) == 1 or len(set(ys)) == 1:
        return math.nan
    return float(stats.spearmanr(xs, ys).statistic)
