"""Statistics of many numbers: means with their intervals, shares, the sign test, and ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from marith.errors import RequestError

try:
    import scipy.stats
except ModuleNotFoundError:
    raise RequestError("evaluations need scipy: pip install 'marith[evals]'") from None

stats: Any = scipy.stats  # which is not typed

RESAMPLES = 2000
CONFIDENCE = 0.95

_BATCH = 2**20  # numbers that are in memory together


@dataclass(frozen=True, slots=True)
class Figure:
    """A measure's mean for a formula: over `count` prompts, while `missing` had no number.

    The mean lies between `low` and `high` with a confidence of 95 %. NaN where nothing counts.
    """

    mean: float
    low: float
    high: float
    median: float
    count: int
    missing: int


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a whole, and where it lies with a confidence of 95 %; NaN of nothing."""

    value: float
    low: float
    high: float


def figure(values: Sequence[float | None]) -> Figure:
    """Numbers, one a prompt, as a figure; None is counted as missing."""
    present = [value for value in values if value is not None and not math.isnan(value)]
    missing = len(values) - len(present)
    if not present:
        return Figure(math.nan, math.nan, math.nan, math.nan, 0, missing)
    mean, median = float(np.mean(present)), float(np.median(present))
    return Figure(mean, *interval(present), median, len(present), missing)


def interval(
    values: Sequence[float],
    weights: Sequence[float] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float]:
    """Where the mean lies with a confidence of 95 %, by the bootstrap (Efron, 1979).

    Values are resampled each with its weight; the same for the same seed.
    """
    if len(values) == 1:
        return float(values[0]), float(values[0])
    array = np.asarray(values, dtype=float)
    weights_array = np.ones_like(array) if weights is None else np.asarray(weights, dtype=float)

    def mean(numbers: np.ndarray, weight: np.ndarray, axis: int) -> Any:
        return np.average(numbers, axis=axis, weights=weight)

    with np.errstate(invalid="ignore"):  # scipy's own interval of infinite means, unused here
        means = stats.bootstrap(
            (array, weights_array),
            mean,
            paired=True,
            n_resamples=resamples,
            batch=max(1, _BATCH // len(array)),
            method="percentile",
            rng=np.random.default_rng(seed),
        ).bootstrap_distribution
    # A mean that was drawn, not one between two: between infinite ones lies no number.
    ends = (1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2
    low, high = np.quantile(means, ends, method="nearest")
    return float(low), float(high)


def share(count: int, whole: int) -> Share:
    """The share of a count, with Wilson's interval (1927), which never leaves [0, 1]."""
    if not whole:
        return Share(math.nan, math.nan, math.nan)
    value = count / whole
    bounds = stats.binomtest(count, whole).proportion_ci(CONFIDENCE, method="wilson")
    return Share(value, min(value, float(bounds.low)), max(value, float(bounds.high)))


def sign_test(won: int, lost: int) -> float:
    """The p-value of the sign test: two-sided and exact, draws left out."""
    return float(stats.binomtest(won, won + lost).pvalue) if won + lost else 1.0


def spearman(xs: Sequence[float], ys: Sequence[float]) -> float:
    """The correlation of the ranks, equal values sharing theirs; NaN where all are equal."""
    if len(set(xs)) == 1 or len(set(ys)) == 1:
        return math.nan
    return float(stats.spearmanr(xs, ys).statistic)


def deepest_fall(ys: Sequence[float]) -> float:
    """How far a curve that should rise falls at most below what it had reached.

    As a share of its whole height: 0 for one that never falls. NaN for one without height.
    """
    highest = np.maximum.accumulate(np.asarray(ys, dtype=float))
    height = float(np.max(ys) - np.min(ys))
    return float(np.max(highest - np.asarray(ys))) / height if height else math.nan
