"""The table of steps at fixed shapes has a line for each number of requests and terms."""

from __future__ import annotations

import re

import pytest
import typer
from typer.testing import CliRunner

from tools import step_counts


def test_the_table_counts_what_a_step_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_counts, "SIZES", ((1, 1), (3, 4)))
    app = typer.Typer()
    app.command()(step_counts.main)
    done = CliRunner().invoke(app, ["--rounds", "1"], catch_exceptions=False)
    lines = re.findall(
        r"│ (\d+ × \d+) +│ (\d+) +│ (\d+) +│ (\d+) +│ ([\d.]+) +│ [\d.]", done.stdout
    )
    assert [size for size, *_ in lines] == ["1 × 1", "3 × 4"]
    for _, operations, copies, waits, _ in lines:
        assert int(operations) > int(copies) > 0
        assert int(waits) == 1


def test_a_step_does_the_same_for_many_plain_texts_as_for_few() -> None:
    few, many = (set(step_counts.count_steps(requests, terms=4)) for requests in (4, 16))
    assert few == many
    assert len(few) == 1


def test_lanes_that_join_and_end_are_exchanged_at_most_once_each() -> None:
    assert 0 <= step_counts.count_swaps(4, terms=2) <= 1
