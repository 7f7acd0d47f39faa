"""Statistics are what they say: beside direct calculations, and at their edges."""

from __future__ import annotations

import ast
import importlib
import math
import random
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import marith
from marith import RequestError
from marith.evals.metrics.statistics import (
    deepest_fall,
    figure,
    interval,
    share,
    sign_test,
    spearman,
)

HOME = Path(marith.__file__).parent
numbers = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30)
heights = st.lists(st.integers(-5, 5).map(float), min_size=2, max_size=9)
MODULE = "marith.evals.metrics.statistics"


def test_an_interval_is_as_wide_as_the_normal_one_where_that_holds() -> None:
    draw = random.Random(1)
    values = [draw.gauss(3, 2) for _ in range(400)]
    low, high = interval(values)
    half = 1.96 * statistics.stdev(values) / math.sqrt(len(values))
    mean = statistics.fmean(values)
    assert (low, high) == pytest.approx((mean - half, mean + half), abs=0.05)
    assert interval(values) == interval(values)
    assert interval(values, seed=1) != interval(values)
    heavy = interval(values, [1.0 if value > 3 else 0.0 for value in values])
    assert heavy[0] > high


@pytest.mark.parametrize("count", [2, 5, 40])
def test_an_interval_is_of_means_that_were_drawn(count: int) -> None:
    draw = random.Random(count)
    values, weights = ([draw.random() for _ in range(count)] for _ in range(2))
    source = np.random.default_rng(3)
    drawn = source.integers(0, count, (500, count))
    means = np.average(np.array(values)[drawn], axis=1, weights=np.array(weights)[drawn])
    low, high = sorted(means)[round(0.025 * 499)], sorted(means)[round(0.975 * 499)]
    assert interval(values, weights, resamples=500, seed=3) == (low, high)


def test_an_interval_of_what_is_infinite_ends_there() -> None:
    assert interval([1.0, math.inf, 2.0, 3.0])[1] == math.inf
    assert interval([math.inf]) == (math.inf, math.inf)
    assert interval([2.0, 2.0]) == (2.0, 2.0)


@settings(max_examples=15)
@given(numbers)
def test_a_figure_lies_in_its_interval_and_counts_what_has_no_number(values: list[float]) -> None:
    found = figure([*values, None, math.nan])
    assert (found.count, found.missing) == (len(values), 2)
    assert found.mean == pytest.approx(statistics.fmean(values))
    assert found.median == pytest.approx(statistics.median(values))
    assert min(values) - 1e-9 <= found.low <= found.high <= max(values) + 1e-9
    empty = figure([None])
    assert math.isnan(empty.mean)
    assert (empty.count, empty.missing) == (0, 1)


@settings(max_examples=50)
@given(st.integers(0, 400), st.integers(1, 400))
def test_an_interval_of_a_share_is_wilsons(count: int, whole: int) -> None:
    count = min(count, whole)
    found = share(count, whole)
    assert 0 <= found.low <= found.value <= found.high <= 1
    z, part = 1.959963984540054, count / whole
    middle = (part + z * z / (2 * whole)) / (1 + z * z / whole)
    half = z * math.sqrt(part * (1 - part) / whole + z * z / (4 * whole**2)) / (1 + z * z / whole)
    assert (found.low, found.high) == pytest.approx((middle - half, middle + half), abs=1e-9)
    assert math.isnan(share(0, 0).value)


@settings(max_examples=50)
@given(st.integers(0, 300), st.integers(0, 300))
def test_the_sign_test_counts_tosses_of_a_coin(won: int, lost: int) -> None:
    tosses = won + lost
    tail = sum(math.comb(tosses, k) for k in range(min(won, lost) + 1))
    assert sign_test(won, lost) == pytest.approx(min(1.0, 2 * tail / 2**tosses), rel=1e-9)


@settings(max_examples=50)
@given(heights, st.data())
def test_rank_correlation_is_spearmans(ys: list[float], data: st.DataObject) -> None:
    xs = data.draw(st.lists(st.integers(-5, 5).map(float), min_size=len(ys), max_size=len(ys)))
    found = spearman(xs, ys)
    if len(set(xs)) == 1 or len(set(ys)) == 1:
        assert math.isnan(found)
    else:
        ranks = [[sum((w < v) + (w == v) / 2 for w in ws) for v in ws] for ws in (xs, ys)]
        assert found == pytest.approx(statistics.correlation(*ranks), abs=1e-9)


@given(heights)
def test_a_curve_falls_nowhere_exactly_if_it_is_sorted(ys: list[float]) -> None:
    fall = deepest_fall(ys)
    if len(set(ys)) == 1:
        assert math.isnan(fall)
    else:
        assert 0 <= fall <= 1
        assert (fall == 0) == (ys == sorted(ys))


def test_without_scipy_an_evaluation_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)  # as where it is not installed
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    monkeypatch.delitem(sys.modules, MODULE)
    with pytest.raises(RequestError, match="evaluations need scipy: pip install"):
        importlib.import_module(MODULE)


@pytest.mark.parametrize(
    "door",
    [
        "marith.evals.metrics.text_classifier",
        "marith.evals.harness.model",
        "marith.evals.speed.savings",
        "marith.demo",
    ],
)
def test_what_needs_no_statistics_does_not_import_them(door: str) -> None:
    reached, left = set[str](), [door]
    while left:
        if (module := left.pop()) not in reached:
            reached.add(module)
            left += _imports(module)
    assert len(reached) > 5
    assert MODULE not in reached


def _imports(module: str) -> Iterator[str]:
    """The modules of ours that one imports at once."""
    path = HOME.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.parse(file.read_text(encoding="utf-8")).body if file.is_file() else ():
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("marith."):
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
