"""The figures of a GPU are measured on a CPU too, printed, and written into a page."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from typer.testing import CliRunner

from tools.gpu import __main__ as program
from tools.gpu import measurements
from tools.gpu.measurements import Lengths
from tools.gpu.section import BEGIN, END, Run, write

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "performance.md"
FEW = ("--device", "cpu", "--sizes", "0.01", "--rounds", "1", "--tokens", "8", "--steady", "12")


@pytest.fixture(autouse=True)
def small_model(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Measure a model of one layer, and leave the random numbers of other tests alone."""
    monkeypatch.setitem(measurements.SHAPES, 0.01, (64, 1, 1, 64))
    with torch.random.fork_rng(devices=[]):
        yield


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Return a copy of the page."""
    return Path(shutil.copy(PAGE, tmp_path))


def run(*arguments: Any) -> str:
    app = typer.Typer()
    app.command()(program.main)
    given = [*FEW, "--prompt", "20", *map(str, arguments)]
    done = CliRunner().invoke(app, given, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_all_figures_are_measured_and_written_between_the_markers(page: Path) -> None:
    printed = run("--requests", 1, "--requests", 2, "--write", page)
    assert "left out" not in printed
    before, after = PAGE.read_text(encoding="utf-8"), page.read_text(encoding="utf-8")
    parts = [re.split(f"{BEGIN}|{END}", text) for text in (before, after)]
    (first, _, last), (same_first, written, same_last) = parts
    assert (first, last) == (same_first, same_last)
    cells = [line.split(" | ") for line in written.splitlines() if "million | " in line]
    assert [row[1] for row in cells] == ["1", "2", "2"]
    assert all(cell.strip("| ") for row in cells for cell in row)
    assert f"torch {torch.__version__}" in written


def test_what_does_not_end_in_time_is_left_out_and_named(page: Path) -> None:
    printed = run("--requests", 1, "--minutes", 0, "--write", page)
    assert "left out: first token of 1 request (0.01 B)" in printed
    text = page.read_text(encoding="utf-8").replace("\n", " ")
    assert "Left out: steps of 1 request (0.01 B), " in text


def test_a_failure_is_named_and_leaves_the_other_figures(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Any) -> None:
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(program.Subject, "measure_first_token", fail)
    printed = run("--requests", 1, "--write", page)
    assert (
        "first token of 1 request (0.01 B), which failed with OutOfMemoryError: no memory"
        in printed
    )
    assert printed.count("left out") == 1


def test_a_page_without_markers_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("A page.", encoding="utf-8")
    with pytest.raises(ValueError, match=r"page\.md' must have the lines"):
        write(Run("cpu", "torch", "today", Lengths(), [], []), page)
    assert page.read_text(encoding="utf-8") == "A page."
