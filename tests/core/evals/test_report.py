"""Figures are what they say, and a report is the same in every form."""

from __future__ import annotations

import csv
import io
import json
import math
import random
import statistics
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marith.evals import paper
from marith.evals.experiment.figures import figure, interval
from marith.evals.experiment.report import Report, Row, digits
from marith.evals.experiment.showing import show
from marith.evals.experiment.texts import Line
from marith.formula.meaning.binding import parse, resolve
from marith.formula.meaning.checking import check

numbers = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=30)
TERMS = {name: f"You are {name}." for name in ("toxic", "positive", "negative")}


def report(**figures: list[float | None]) -> Report:
    found = {name: figure(values) for name, values in figures.items()}
    rows = (
        Row(Line("M", "M"), found, paper.table("toxicity").beside("M")),
        Row(Line("or | bar", "2*M - toxic"), found),
    )
    measures = dict.fromkeys(figures, "lower")
    return Report("toxicity", "a title", measures, rows, {}, ("a note",), paper.table("toxicity"))


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


@settings(max_examples=25)
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


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.28781, "0.2878"),
        (13.4618, "13.46"),
        (0.000371, "0.0004"),
        (12345.6, "12346"),
        (0.0, "0"),
        (math.inf, "inf"),
        (math.nan, ""),
    ],
)
def test_a_number_has_the_digits_that_count(value: float, written: str) -> None:
    assert digits(value) == written


def test_every_form_of_a_report_says_the_same(tmp_path: Path) -> None:
    one = report(toxicity=[0.25, 0.75, None], perplexity=[4.0, 6.0, 8.0])
    (tmp_path / "out").mkdir()
    show(one, tmp_path / "out")
    found = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert set(found) == {"table.csv", "table.md", "report.json", "plot.png"}
    assert found["plot.png"].startswith(b"\x89PNG")
    rows = list(csv.DictReader(io.StringIO(found["table.csv"].decode())))
    assert [row["name"] for row in rows] == ["M", "or | bar"]
    assert (rows[0]["toxicity mean"], rows[0]["toxicity missing"]) == ("0.5", "1")
    assert (rows[0]["perplexity median"], rows[0]["perplexity count"]) == ("6", "3")
    assert rows[0]["paper: Llama-2-13b toxicity"] == "0.288"
    assert rows[1]["paper: Llama-2-13b toxicity"] == ""
    table = found["table.md"].decode()
    assert "| M |  | 0.5000 [0.2500, 0.7500] | 0.5000 | 6.000 [" in table
    assert "| 0.288 / 13.46 | 0.264 / 22.90 | 0.269 / 19.77 |" in table
    assert "| or \\| bar | 2*M - toxic |" in table
    assert "paper: toxicity / perplexity; the paper's, 2000 messages of /pol/" in table
    assert table.endswith("- a note\n")
    data = json.loads(found["report.json"])
    assert data["rows"][0]["figures"]["toxicity"]["mean"] == 0.5


def test_what_no_number_is_is_null_in_json_and_empty_elsewhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = report(toxicity=[None])
    assert json.loads(one.to_json())["rows"][0]["figures"]["toxicity"]["mean"] is None
    assert next(csv.DictReader(io.StringIO(one.to_csv())))["toxicity mean"] == ""
    show(one)
    out = capsys.readouterr().out
    assert "nan" not in out
    assert "median" not in out  # of a column that nothing fills


def test_without_matplotlib_all_but_the_plot_is_written_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as where it is not installed
    show(report(toxicity=[0.5]), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"table.csv", "table.md", "report.json"}
    assert "pip install 'marith[evals]'" in capsys.readouterr().out


def test_one_measure_alone_is_drawn_too(tmp_path: Path) -> None:
    show(report(toxicity=[0.5, 0.25, None]), tmp_path)
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["toxicity", "toxicity_gpt2", "positive", "negative"])
def test_every_formula_of_the_papers_tables_means_something(name: str) -> None:
    table = paper.table(name)
    known = resolve({**TERMS, "C": 'classifier("pocket-toxicity", label="civil")'})
    for row in table.rows:
        check(parse(row.line.formula), known)
        assert set(row.figures) == set(table.models)
        assert all(len(numbers) == len(table.measures) for numbers in row.figures.values())
    assert len({line.name for line in table.lines}) == len(table.lines)


def test_a_formula_is_found_however_it_is_spaced_and_a_foreign_one_is_not() -> None:
    table = paper.table("toxicity")
    found = table.beside("M-0.96*union( toxic,M )")
    assert found["Llama-2-13b"] == (0.201, 11.08)
    assert table.printed(found["Pythia-12b"]) == "0.170 / 22.87"
    assert table.beside("M - 0.5*toxic") == {}


def test_judgements_name_formulas_of_their_tables_and_add_up() -> None:
    for task in ("toxicity", "positive", "negative"):
        names = {line.name for line in paper.table(task).lines}
        for judged in paper.judgements(task):
            assert {judged.ours, judged.theirs} <= names
            assert all(98 <= sum(numbers) <= 102 for numbers in judged.figures.values())
