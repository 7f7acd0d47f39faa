"""Tables and numbers: what no column fills is left out, and a cell stays a cell."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from marith.evals.metrics.statistics import Figure, figure
from marith.evals.reporting.numbers import counted, digits, fixed, with_interval
from marith.evals.reporting.table import Table

TABLE = Table(
    ("", "a | b", "empty", "n"),
    [("x", "[b]y[/b]", "", "1"), ("two\nlines", "", "", "22")],
    left=(0, 1),
    title="above",
    caption="below",
    groups={1: "a [group]"},
)


def shown(table: Table, width: int = 60) -> list[str]:
    screen = io.StringIO()
    Console(file=screen, width=width).print(table.to_rich(), highlight=False)
    return screen.getvalue().splitlines()


def test_a_column_that_nothing_fills_is_left_out_and_the_others_keep_their_sides() -> None:
    filled = TABLE.filled()
    assert list(filled.head) == ["", "a | b", "n"]
    assert [list(row) for row in filled.rows] == [["x", "[b]y[/b]", "1"], ["two\nlines", "", "22"]]
    assert set(filled.left) == {0, 1}
    assert (filled.title, filled.caption, filled.groups) == ("above", "below", TABLE.groups)


def test_markdown_has_bars_and_line_ends_that_stay_in_their_cells() -> None:
    assert TABLE.filled().to_markdown().split("\n") == [
        "above",
        "",
        "|  | a \\| b | n |",
        "| --- | --- | ---: |",
        "| x | [b]y[/b] | 1 |",
        "| two<br>lines |  | 22 |",
        "",
        "below",
    ]


def test_a_terminal_shows_groups_brackets_as_they_are_and_whole_words() -> None:
    lines = shown(TABLE.filled())
    (group,) = (i for i, line in enumerate(lines) if "a [group]" in line)
    assert lines[group - 1].startswith("├")
    assert any("[b]y[/b]" in line for line in lines)
    narrow = "".join(shown(Table(("formula",), [("x" * 50,)]), 20))
    assert narrow.count("x") == 50


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


def test_numbers_in_words() -> None:
    assert with_interval(Figure(0.5, 0.25, 0.75, 0.5, 9, 0)) == "0.5000 [0.2500, 0.7500]"
    assert with_interval(figure([])) == with_interval(None) == fixed(None) == ""
    assert (fixed(0.125), fixed(24.94, 1), fixed(3.2, 0)) == ("0.12", "24.9", "3")
    assert (counted(1, "prompt"), counted(0, "text")) == ("1 prompt", "0 texts")
