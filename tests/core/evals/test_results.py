"""Tables of evaluations: means, intervals, paired differences, and what is written of them."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import numpy as np
import pandas
import pytest

from marith.evals.formulas import NamedFormula
from marith.evals.results import BY_TEXT, CSV, Measured, Results, TextRow
from marith.evals.statistics import difference, estimate, interval


def results(*values: list[float]) -> Results:
    """Each list has one formula's measure, a text a prompt."""
    rows = [
        Measured(
            NamedFormula(f"f{i}", f"M + {i}*x"),
            tuple(
                TextRow(row, 1, "Hi", f"text {row}", {"tone": value, "perplexity": 2.0})
                for row, value in enumerate(of_formula)
            ),
        )
        for i, of_formula in enumerate(values)
    ]
    return Results("tone of pocket", tuple(rows), {"tone": "higher"})


def test_an_interval_is_a_bootstrap_interval() -> None:
    values = [0.0, 1.0, 2.0, 5.0]
    means = sorted(float(np.mean(some)) for some in product(values, repeat=4))  # every resample
    low, high = interval(values, resamples=20_000)
    assert low == pytest.approx(np.quantile(means, 0.025), abs=0.26)
    assert high == pytest.approx(np.quantile(means, 0.975), abs=0.26)
    assert interval(values) == interval(values)


def test_the_paired_test_flips_all_signs() -> None:
    first, others = [1.0, 2.0, 3.0, 4.0], [2.0, 2.5, 5.0, 4.5]
    apart = [after - before for before, after in zip(first, others, strict=True)]
    means = [np.mean([s * d for s, d in zip(signs, apart, strict=True)])
             for signs in product((1, -1), repeat=4)]  # fmt: skip
    wanted = np.mean([abs(mean) >= abs(np.mean(apart)) for mean in means])
    assert difference(first, others).p == pytest.approx(wanted)
    assert difference(first, first).p == 1.0


def test_a_mean_that_one_text_dominates_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    assert estimate([1.0, 1.0, 1.0, 97.0]).outlier_dominated
    assert not estimate([0.9, 1.0, 1.1, 1.2]).outlier_dominated
    results([0.1, 0.2, 0.3, 0.4], [0.4, 0.1, 0.2, 0.5]).show()
    printed = capsys.readouterr().out
    (compared,) = [line for line in printed.splitlines() if "│ f1 " in line]
    assert "=" in compared
    assert "contains zero" in printed


def test_a_text_without_a_number_is_left_out() -> None:
    found = results([1.0, math.nan, 3.0]).estimates["f0", "tone"]
    assert (found.mean, found.count) == (2.0, 2)


def test_the_table_the_texts_and_the_plot_are_written(tmp_path: Path) -> None:
    found = results([0.1, 0.2, 0.3], [0.5, 0.6, 0.9])
    found.show(tmp_path, tmp_path / "plot.png")
    table, texts = (pandas.read_csv(tmp_path / name) for name in (CSV, BY_TEXT))
    assert table["tone mean"].tolist() == pytest.approx([0.2, 2 / 3])
    assert table["tone difference mean"][1] == pytest.approx(0.2 / 0.3 * 0.7, abs=1e-3)
    assert len(texts) == 6
    assert (tmp_path / "plot.png").stat().st_size > 1000
