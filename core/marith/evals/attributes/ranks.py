"""How monotone a curve is: Spearman's rank correlation, and its deepest fall."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def spearman(xs: Sequence[float], ys: Sequence[float]) -> float:
    """The correlation of the ranks, equal values sharing theirs; NaN where all are equal."""
    one, two = _ranks(xs), _ranks(ys)
    one, two = one - one.mean(), two - two.mean()
    size = math.sqrt(float(one @ one) * float(two @ two))
    return float(one @ two) / size if size else math.nan


def deepest_fall(ys: Sequence[float]) -> float:
    """How far a curve that should rise falls at most below what it had reached.

    As a share of its whole height: 0 for one that never falls. NaN for one without height.
    """
    highest = np.maximum.accumulate(np.asarray(ys, dtype=float))
    height = float(np.max(ys) - np.min(ys))
    return float(np.max(highest - np.asarray(ys))) / height if height else math.nan


def _ranks(values: Sequence[float]) -> np.ndarray:
    known = np.asarray(values, dtype=float)
    lower = (known[None, :] < known[:, None]).sum(axis=1)
    equal = (known[None, :] == known[:, None]).sum(axis=1)
    return np.asarray(lower + (equal + 1) / 2, dtype=float)
