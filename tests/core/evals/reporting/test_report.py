"""A report is the same in every form, and every evaluation's is what it was."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.canned_reports import (
    REPORTS,
    curves,
    outcome,
    preferences,
    savings,
    summary,
)

from marith import RequestError
from marith.evals.experiment.summary import Summary, axis_label, draw
from marith.evals.reporting.evaluation_report import EvaluationReport, check_outputs, to_csv
from marith.evals.speed.savings_report import draw as draw_curve

FROZEN = Path(__file__).parent / "frozen"
PNG = b"\x89PNG"


def printed(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    REPORTS[name]().show()
    return capsys.readouterr().out


@pytest.mark.parametrize("name", REPORTS)
def test_what_is_printed_and_written_is_what_it_was(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = REPORTS[name]()
    forms = {"txt": printed(name, capsys)}
    if name not in ("curves", "preferences"):  # whose last digits are scipy's
        forms["json"] = report.to_json()
    if report.records:
        forms |= {"md": report.to_markdown(), "csv": report.to_csv()}
    for kind, text in forms.items():
        assert text == (FROZEN / f"{name}.{kind}").read_text(encoding="utf-8"), kind


def test_curves_and_preferences_have_their_statistics_in_json() -> None:
    (first, second, *_) = json.loads(curves().report().to_json())["curves"]
    assert (first["spearman"], first["deepest_fall"]) == (pytest.approx(1), 0)
    assert second["spearman"] < 1
    assert second["deepest_fall"] > 0
    (one, none) = json.loads(preferences().report().to_json())["comparisons"]
    assert one["shares"]["won"]["value"] == pytest.approx(40 / 101)
    assert none["shares"]["won"] == {"value": None, "low": None, "high": None}
    assert (one["sign_test"] > 0.9, none["sign_test"]) == (True, 1)


def test_every_form_of_a_report_says_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = summary().report()
    report.show(tmp_path)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(written) == {"table.csv", "table.md", "report.json", "plot.png"}
    assert written["plot.png"].startswith(PNG)
    rows = list(csv.DictReader(io.StringIO(written["table.csv"].decode())))
    assert [row["name"] for row in rows] == ["M", "or | bar", "top"]
    assert (rows[0]["toxicity mean"], rows[0]["perplexity missing"]) == ("0.2878", "2")
    assert rows[0]["paper: Llama-2-13b toxicity"] == "0.288"
    assert rows[1]["paper: Llama-2-13b toxicity"] == ""
    data = json.loads(written["report.json"])
    assert data["rows"][0]["figures"]["toxicity"]["mean"] == 0.28781
    for text in (written["table.md"].decode(), capsys.readouterr().out):
        assert "0.2878 [0.2590, 0.3166]" in text
        assert "0.288 / 13.46" in text
        assert "paper: toxicity / perplexity; the paper's, 2000 messages of /pol/" in text
        assert "[b]another[/b]" in text


def test_what_is_no_number_is_null_in_json_and_empty_elsewhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = summary()
    (row,) = (row for row in found.rows if not row.figures["perplexity"].count)
    alone = Summary("x", "a title", {"perplexity": "lower"}, (row,), {}).report()
    assert json.loads(alone.to_json())["rows"][0]["figures"]["perplexity"]["mean"] is None
    assert next(csv.DictReader(io.StringIO(alone.to_csv())))["perplexity mean"] == ""
    alone.show()
    out = capsys.readouterr().out
    assert "nan" not in out
    assert "median" not in out  # of a column that nothing fills
    assert json.loads(found.report().to_json())["rows"][2]["figures"]["perplexity"]["mean"] == "inf"


@pytest.mark.parametrize(
    ("report", "names"),
    [
        (summary().report(), {"plot.png"}),
        (curves().report(), {"plot.png", "perplexity.png"}),
        (preferences().report(), {"plot.png"}),
        (outcome().report(), {"plot.png"}),
    ],
)
def test_every_report_is_drawn(report: EvaluationReport, names: set[str], tmp_path: Path) -> None:
    report.write(tmp_path)
    drawn = {path.name: path.read_bytes() for path in tmp_path.glob("*.png")}
    assert set(drawn) == names
    assert all(data.startswith(PNG) for data in drawn.values())


def test_an_axis_has_the_name_of_its_measure_and_what_it_is_measured_by() -> None:
    measures = {
        "formal": {"model": "pocket-formality", "label": "formal"},
        "negativity": {"lexicon": "vader", "tone": "negative"},
        "perplexity": {"under": "M"},
    }
    better = {"formal": "higher", "negativity": "", "perplexity": "lower", "words": "lower"}
    found = replace(summary(), measures=better, settings={"measures": measures})
    assert [axis_label(found, name) for name in better] == [
        "formal (pocket-formality), higher is better",
        "negativity (vader)",
        "perplexity (under M), lower is better",
        "words, lower is better",
    ]


def test_a_summary_is_a_data_frame_with_all_digits() -> None:
    frame = summary().to_dataframe()
    assert list(frame["name"]) == ["M", "or | bar", "top"]
    assert frame["toxicity mean"][0] == 0.28781
    assert frame["perplexity count"].dtype == int


def test_one_measure_alone_is_drawn_too_and_so_are_times(tmp_path: Path) -> None:
    replace(summary(), measures={"toxicity": "lower"}).report().write(tmp_path)
    rows = tuple(
        replace(row, figures={**row.figures, "words": row.figures["toxicity"]})
        for row in summary().rows
    )
    measures = {**summary().measures, "words": ""}
    draw(replace(summary(), measures=measures, rows=rows), tmp_path / "three.png")
    draw_curve(savings().curve, tmp_path / "curve.png")
    for name in ("plot.png", "three.png", "curve.png"):
        drawn = (tmp_path / name).read_bytes()
        assert drawn.startswith(PNG)
        assert len(drawn) < 100_000  # small enough for a page


def test_without_matplotlib_all_but_the_plot_is_written_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as where it is not installed
    summary().report().show(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"table.csv", "table.md", "report.json"}
    assert "pip install 'marith[evals]'" in capsys.readouterr().out


def test_without_pandas_a_file_of_a_table_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(RequestError, match=r"tables in files need pandas: pip install"):
        summary().report().to_csv()


def test_the_json_is_written_beside_the_table_or_printed_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = savings().report()
    report.show_or_print_json(tmp_path / "x.json", 120)
    out = capsys.readouterr().out
    assert (tmp_path / "x.json").read_text(encoding="utf-8") == report.to_json() + "\n"
    assert all(name in out for name in ("as the paper", "λ = 0.5"))
    report.show_or_print_json(Path("-"), 120)
    assert capsys.readouterr().out == report.to_json() + "\n"


def test_whole_numbers_stay_whole_beside_those_that_are_missing() -> None:
    records: list[dict[str, Any]] = [{"a": 1, "b": 0.123456, "c": "x,y"}, {"a": None, "b": True}]
    assert to_csv(records) == 'a,b,c\n1,0.123456,"x,y"\n,True,\n'
    assert to_csv(records, 2) == 'a,b,c\n1,0.12,"x,y"\n,True,\n'


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"as_json": Path("/no/where/x.json")}, "'/no/where/x.json'"),
        ({"plot": Path("x.doc")}, ".png, .svg, .pdf, not 'x.doc'"),
        ({"plot": Path("x.png"), "sections": ("floor",)}, "a plot shows terms, not 'floor' alone"),
    ],
)
def test_a_file_that_could_not_be_written_is_refused_first(
    files: dict[str, Any], words: str
) -> None:
    asked = {"as_json": None, "plot": None, "sections": ("terms",), "plotted": ("terms",)}
    with pytest.raises(RequestError) as error:
        check_outputs(**{**asked, **files})
    assert words in str(error.value)
