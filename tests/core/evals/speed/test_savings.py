"""Savings: figures follow their definitions, every setup is measured, bad input is refused."""

from __future__ import annotations

import csv
from typing import Any

import pytest
from typer.testing import CliRunner

from marith.cli import app
from marith.evals import pocket_texts
from marith.evals.speed import setups
from marith.evals.speed.savings import per_token
from marith.evals.speed.setups import F2, ROWS
from marith.formula.meaning.binding import resolve
from marith.formula.meaning.checking import check
from marith.formula.text.trust import parse
from marith.request.completion import Completion, StageStats, Stats, Usage

FEW = (ROWS[0], F2)
FACTORS = (0.1, 1.0)
NAMES = ("no speculation", "as the paper", "A5, all together")


def speed(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["eval", "speed", *arguments])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture(scope="module", autouse=True)
def few_replies(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The corpus of the n-grams, cut to a few lines."""
    lines = pocket_texts.REPLIES.read_text(encoding="utf-8").split("\n")
    path = tmp_path_factory.mktemp("replies") / "few.txt"
    path.write_text("\n".join(lines[:370]), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pocket_texts, "REPLIES", path)
        yield


@pytest.fixture(scope="module")
def table(few_replies: None, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The rows of the table, on few tokens; the curves are measured and drawn beside them."""
    out = tmp_path_factory.mktemp("run")
    sizes = ("--prompts", "1", "--rounds", "1", "--tokens", "6")
    files = ("--csv", str(out / "speed.csv"), "--plot", str(out / "speed.png"))
    terms = setups.named_terms()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setups, "CALIBRATION", 1)
        patch.setattr(setups, "ROWS", FEW)
        patch.setattr(setups, "SYSTEM_PROMPTS", {"formal": setups.SYSTEM_PROMPTS["formal"]})
        patch.setattr(setups, "named_terms", lambda: terms)
        patch.setattr("marith.evals.speed.savings.FACTORS", FACTORS)
        patch.setattr("marith.speculation.cost_model.TOKENS", 20)
        code, _, _ = speed(*sizes, *files)
    assert code == 0
    with (out / "speed.csv").open(encoding="utf-8") as file:
        rows = [{key: _read(value) for key, value in row.items()} for row in csv.DictReader(file)]
    curves = [(row["way"], row["factor"]) for row in rows if row["section"] == "lambda"]
    assert curves == [("formal", factor) for factor in FACTORS]
    assert (out / "speed.png").read_bytes().startswith(b"\x89PNG")
    return [row for row in rows if row["section"] == "table"]


def _read(cell: str) -> Any:
    try:
        return float(cell) if cell else None
    except ValueError:
        return cell


def test_the_table_has_every_row_in_every_way(table: list[dict[str, Any]]) -> None:
    expected = [(row.formula(), name) for row in FEW for name in NAMES]
    assert [(line["formula"], line["way"]) for line in table] == expected
    for line in table:
        assert line["milliseconds"] > 0
        assert all(0 <= (line[name] or 0) <= 1 for name in ("predicted", "accepted"))


def test_without_speculation_every_term_is_called_once_for_each_token(
    table: list[dict[str, Any]],
) -> None:
    plain = [line for line in table if line["way"] == NAMES[0]]
    assert [line["calls"] for line in plain] == [1, 4]
    assert [line["calls"] for line in plain] == [line["paper_calls"] for line in plain]
    assert all(line["accepted"] is None for line in plain)
    together = [line for line in table if line["way"] == NAMES[2]]
    for line, one in zip(together, plain, strict=True):
        assert line["calls"] == pytest.approx(line["passes"] * one["calls"])
        assert line["ratio"] == pytest.approx(line["milliseconds"] / one["milliseconds"])


def test_every_timed_formula_is_valid() -> None:
    terms = resolve(setups.named_terms())
    for row in ROWS:
        for draft in ("", "A2"):
            check(parse(row.formula(draft)), terms)


def test_costs_are_per_drawn_token_and_shares_are_of_the_checked_drafts() -> None:
    stages = (StageStats("M", 4, 3, 0.5), StageStats("M + a", 1, 0, 1.0))
    stats = Stats(tokens=5, passes=3, calls=6, seconds=9.0, stages=stages)
    text = Completion("", [1, 2, 3, 4, 5], "stop", Usage(1, 5), stats)
    stats = Stats(tokens=4, passes=4, calls=8, seconds=9.0)
    plain = Completion("", [1, 2, 3, 4], "length", Usage(1, 4), stats)
    assert per_token([text, plain]) == pytest.approx((1.4, 0.7, 0.6, 0.6))
    assert per_token([plain]) == (2, 1, None, None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--only", "speed"), "table, lambda, not 'speed'"),
        (("--only", "table,"), "not ''"),
        (("--prompts", "0"), "prompts must be a whole number from 1 to 10000, not 0"),
        (("--tokens", "1"), "tokens must be a whole number from 2 to 512, not 1"),
        (("--model", "/no/where"), "'/no/where'"),
        (("--csv", "/no/where/x.csv"), "'/no/where/x.csv'"),
        (("--plot", "x.png", "--only", "table"), "shows the section lambda, but --only is 'table'"),
    ],
)
def test_bad_values_are_one_sentence_and_exit_code_2(
    arguments: tuple[str, ...], words: str
) -> None:
    code, out, err = speed(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1
