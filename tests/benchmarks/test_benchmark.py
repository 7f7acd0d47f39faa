"""The benchmark runs, in each of its sections."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from benchmarks.__main__ import main
from benchmarks.section_variants import VARIANTS_OF_SECTION


def timed(folder: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    """What one round of few tokens writes, and what it prints."""
    app, path = typer.Typer(), folder / "figures.json"
    app.command()(main)
    few = ("--tokens", "4", "--rounds", "1", "--json", str(path))
    done = CliRunner().invoke(app, [*arguments, *few], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(path.read_text(encoding="utf-8")), done.stdout


def test_it_runs_on_pocket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.bandwidth.NUMBERS", 2**16)  # read to time the memory
    plot = tmp_path / "speed.png"
    given = ("--model", "pocket", "--only", "terms,floor", "--plot", str(plot))
    data, printed = timed(tmp_path, *given)
    assert plot.read_bytes().startswith(b"\x89PNG")
    first = data["results"][0]["milliseconds"]
    for result in data["results"]:
        assert result["name"] in printed
        assert result["milliseconds"] == median(result["samples"]) > 0
        assert result["ratio"] == result["milliseconds"] / first
        assert result["floor_share"] == data["floor"]["milliseconds"] / result["milliseconds"]


def test_every_section_runs(tmp_path: Path) -> None:
    sections = [name for name in VARIANTS_OF_SECTION if name != "start"]  # new processes
    tiny = ("--shape", "32,2,4,48,64", "--requests", "2", "--requests", "1")
    data, _ = timed(tmp_path, *tiny, "--only", ",".join(sections))
    results = data["results"]
    assert [*dict.fromkeys(one["section"] for one in results)] == sections
    passes = {one["passes_per_token"] for one in results if one["section"] == "terms"}
    assert passes == {None, 1}  # of transformers, and of formulas of any number of terms
    steps = [one for one in results if one["name"].startswith("step")]
    assert all(0 < one["host"] < one["milliseconds"] for one in steps)
    assert any("llama.cpp" in note for note in data["notes"])
