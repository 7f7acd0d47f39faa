"""Speed: figures are what they say, every setup of the table is measured, and bad input is told."""

from __future__ import annotations

import gc
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from marith import Plan
from marith.cli import app
from marith.evals import pocket_texts
from marith.evals.reporting.evaluation_report import split_sections
from marith.evals.speed.rounds import TokenClock
from marith.evals.speed.speculation import compared_setups
from marith.evals.speed.speculation import speed_questions as material
from marith.evals.speed.speculation.drafting_setups import Tally, plan_label
from marith.evals.speed.speculation.paper_table import ROWS, light_terms_later
from marith.evals.speed.speculation.speed_sizes import SECTIONS, SIZES, SavingsSettings
from marith.formula.meaning.binding import parse, resolve
from marith.formula.meaning.checking import check
from marith.request.completion import StageStats, Stats

FEW = (ROWS[0], ROWS[-1])
FACTORS = (0.1, 1.0)
NAMES = ("no speculation", "as the paper", "A5, all together", "A5, light terms later")


def speed(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["eval", "speed", *arguments])
    return done.exit_code, done.stdout, done.stderr


def replies(folder: pytest.TempPathFactory, count: int) -> Path:
    """The corpus of the n-grams, cut to a few lines."""
    lines = pocket_texts.REPLIES.read_text(encoding="utf-8").split("\n")
    path = folder.mktemp("replies") / "few.txt"
    path.write_text("\n".join(lines[:count]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str, Path]:
    """Some of the table and of the figure on few tokens: as JSON, as printed, and as drawn."""
    out = tmp_path_factory.mktemp("run")
    sizes = ("--prompts", "1", "--rounds", "1", "--tokens", "6")
    files = ("--json", str(out / "speed.json"), "--plot", str(out / "speed.png"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("marith.evals.speed.speculation.paper_table.CALIBRATION", 1)
        patch.setattr("marith.evals.speed.speculation.paper_table.ROWS", FEW)
        patch.setattr("marith.evals.speed.speculation.factor_curve.SYSTEM_PROMPTS", ("formal",))
        patch.setattr("marith.evals.speed.speculation.factor_curve.FACTORS", FACTORS)
        patch.setattr("marith.speculation.simulate.TOKENS", 20)
        patch.setattr(pocket_texts, "REPLIES", replies(tmp_path_factory, 370))
        code, printed, _ = speed("--only", "table,lambda", *sizes, *files)
    assert code == 0
    written = (out / "speed.json").read_text(encoding="utf-8")
    return json.loads(written), printed, out / "speed.png"


@pytest.fixture(scope="module")
def table(run: tuple[dict[str, Any], str, Path]) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = run[0]["lines"]
    return lines


@pytest.fixture(scope="module")
def terms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pocket_texts, "REPLIES", replies(tmp_path_factory, 20))
        yield material.terms()


def test_what_is_spared_searches_for_garbage_stays_spared(table: list[dict[str, Any]]) -> None:
    """A process freezes what it has loaded once; thawed, it would hold event loops up for good."""
    assert table
    assert gc.get_freeze_count() > 100_000


def test_the_table_has_every_row_in_every_way(table: list[dict[str, Any]]) -> None:
    expected = [(row.formula(), name) for row in FEW for name in NAMES[: 4 if row.weights else 3]]
    assert [(line["formula"], line["way"]) for line in table] == expected
    for line in table:
        assert all(math.isfinite(line[name]) for name in ("calls", "passes", "milliseconds"))
        assert line["milliseconds"] > 0
        assert len(line["samples"]) == 1
        assert all(0 <= (line[name] or 0) <= 1 for name in ("predicted", "measured"))


def test_without_speculation_every_term_is_called_once_for_each_token(
    table: list[dict[str, Any]],
) -> None:
    plain = [line for line in table if line["way"] == NAMES[0]]
    assert [line["calls"] for line in plain] == [1, 4]
    assert [line["calls"] for line in plain] == [line["paper_calls"] for line in plain]
    assert all(line["measured"] is None for line in plain)
    together = [line for line in table if line["way"] == NAMES[2]]
    for line, one in zip(together, plain, strict=True):
        assert line["calls"] == pytest.approx(line["passes"] * one["calls"])
        assert line["ratio"] == line["milliseconds"] / one["milliseconds"]


def test_the_papers_figures_stand_beside_ours(table: list[dict[str, Any]]) -> None:
    by_paper = [line["paper_calls"] for line in table if line["way"] == NAMES[1]]
    assert by_paper == [0.80, 1.44]
    assert not any(line["paper_calls"] for line in table if line["way"].startswith("A5"))
    assert [row.calls[1] for row in ROWS] == [0.80, 1.03, 1.04, 1.08, 1.10, 1.12, 1.32, 1.44]
    assert [row.calls[0] for row in ROWS] == [1 + len(row.weights) for row in ROWS]


def test_what_is_shown_is_what_is_written(run: tuple[dict[str, Any], str, Path]) -> None:
    data, printed, plot = run
    points = data["curve"]
    assert [(point["voice"], point["factor"]) for point in points] == [
        ("formal", factor) for factor in FACTORS
    ]
    (row,) = (line for line in printed.splitlines() if "│ formal " in line)
    shown = [cell.strip() for cell in row.strip("│ \n").split("│")]
    assert shown == ["formal", *(f"{point['calls']:.2f}" for point in points)]
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_every_formula_that_is_timed_means_something(terms: dict[str, Any]) -> None:
    pairs = [*compared_setups.against_none(terms, pocket=True).values()]
    assert len(pairs) == 10
    assert len(compared_setups.against_none(terms, pocket=False)) == 9
    for plain, auto in pairs:
        check(parse(plain.formula), resolve(plain.terms))
        assert (plain.speculation, auto.speculation) == (None, "auto")
        assert (plain.formula, plain.temperature) == (auto.formula, auto.temperature)


def test_light_terms_lag_and_the_heaviest_does_not() -> None:
    four = light_terms_later(ROWS[-1])
    assert dict(four.every) == {"angry": 16, "sports": 16}
    assert dict(light_terms_later(ROWS[-2]).every) == {"formal": 16, "happy": 16, "sports": 16}
    assert four.drafted_by == ("A5",)


def test_a_round_has_questions_of_its_own() -> None:
    assert material.questions(3, 1) == material.questions(3, 1) != material.questions(3, 2)


def test_a_tally_counts_what_was_drawn_and_leaves_out_the_first_arrival() -> None:
    stage = StageStats("M", evaluated=4, stood=3, predicted=0.5)
    tally = Tally()
    for _ in range(2):
        stats = Stats(tokens=5, passes=3, calls=6, seconds=9.0, stages=(stage,))
        tally.add(TokenClock(0.0, [(0.5, 1), (0.7, 3), (0.9, 2)]), stats)
    assert (tally.drawn, tally.later, tally.passes, tally.calls) == (12, 10, 6, 12)
    assert tally.milliseconds(whole=True) == pytest.approx(1e3 * 1.8 / 12)
    assert tally.milliseconds(whole=False) == pytest.approx(1e3 * 0.8 / 10)
    assert (tally.evaluated, tally.accepted, tally.predicted) == (8, 6, 4.0)
    short = Tally()
    short.add(TokenClock(0.0, [(0.5, 5)]), Stats(5, 1, 1, 0.5))
    assert short.milliseconds(whole=False) == short.milliseconds(whole=True) == 100


def test_a_plan_is_told_by_the_names_of_its_terms(terms: dict[str, Any]) -> None:
    plan = Plan(((str(terms["A2"]), 2), ("prompted()", 3)), (str(terms["A5"]),), 7)
    assert plan_label(plan, terms) == "A5, 7 ahead, A2: 2, M: 3"
    assert plan_label("auto", terms) == plan_label(None, terms) == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--only", "speed"), "table, lambda, auto, not 'speed'"),
        (("--only", "table,"), "not ''"),
        (("--prompts", "0"), "prompts is a whole number from 1 to 10000, not 0"),
        (("--rounds", "0"), "rounds is a whole number from 1 to 10000, not 0"),
        (("--tokens", "1"), "tokens is a whole number from 2 to 512, not 1"),
        (("--model", "/no/where"), "'/no/where'"),
        (("--json", "/no/where/x.json"), "'/no/where/x.json'"),
        (("--plot", "x.doc"), ".png, .svg, .pdf, not 'x.doc'"),
        (("--plot", "x.png", "--only", "auto"), "shows lambda, not 'auto'"),
    ],
)
def test_bad_values_are_one_sentence_and_exit_code_2(
    arguments: tuple[str, ...], words: str
) -> None:
    code, out, err = speed(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


def test_a_plot_without_matplotlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as where it is not installed
    code, out, err = speed("--plot", "x.png")
    assert (code, out) == (2, "")
    assert "pip install 'marith[evals]'" in err


def test_sections_have_sizes_of_their_own_unless_they_are_given() -> None:
    assert split_sections(["table, auto", "lambda"], SECTIONS) == ("table", "auto", "lambda")
    assert split_sections([], SECTIONS) == SECTIONS == tuple(SIZES)
    own, given = SavingsSettings(), SavingsSettings(prompts=5, rounds=2)
    for section in SECTIONS:
        assert own.size(section) == SIZES[section]
        assert (given.size(section).prompts, given.size(section).rounds) == (5, 2)
