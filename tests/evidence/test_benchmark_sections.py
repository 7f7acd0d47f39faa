"""The benchmark runs in each of its sections."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from typer.testing import CliRunner

from benchmarks.__main__ import main
from benchmarks.section_variants import VARIANTS_OF_SECTION


def test_every_section_runs(tmp_path: Path) -> None:
    sections = [name for name in VARIANTS_OF_SECTION if name != "start"]  # new processes
    app, path = typer.Typer(), tmp_path / "figures.json"
    app.command()(main)
    tiny = ("--shape", "32,2,4,48,64", "--requests", "2", "--requests", "1")
    few = ("--tokens", "4", "--rounds", "1", "--json", str(path))
    arguments = [*tiny, "--only", ",".join(sections), *few]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    data = json.loads(path.read_text(encoding="utf-8"))
    results = data["results"]
    assert [*dict.fromkeys(one["section"] for one in results)] == sections
    passes = {one["passes_per_token"] for one in results if one["section"] == "terms"}
    assert passes == {None, 1}  # of transformers, and of formulas of any number of terms
    steps = [one for one in results if one["name"].startswith("step")]
    assert all(0 < one["host"] < one["milliseconds"] for one in steps)
    assert any("llama.cpp" in note for note in data["notes"])
