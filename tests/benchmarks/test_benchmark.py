"""The benchmark runs on pocket; `make evidence` runs each of its sections."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from benchmarks.__main__ import main


def timed(folder: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    """What one round of few tokens writes, and what it prints."""
    app, path = typer.Typer(), folder / "figures.json"
    app.command()(main)
    few = ("--tokens", "4", "--rounds", "1", "--json", str(path))
    done = CliRunner().invoke(app, [*arguments, *few], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(path.read_text(encoding="utf-8")), done.stdout


def test_the_benchmark_runs_on_pocket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
