"""The benchmark runs, and its floor and products count every matrix once."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from benchmarks.__main__ import main
from benchmarks.bandwidth import weight_bytes
from benchmarks.section_variants import VARIANTS_OF_SECTION
from benchmarks.step_variants import linear_inputs
from marith.scoring.layouts.laying_out import lay_out
from marith.testing import FAMILIES, tiny_model
from marith.testing.gguf_file import why_not


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


@pytest.mark.parametrize("family", FAMILIES)
def test_floor_and_products_count_every_matrix_once_but_the_embeddings(family: str) -> None:
    model = tiny_model(family)
    embeddings = ("embed_tokens", "embed_in", "wte", "wpe")
    counted = sum(
        parameter.numel()
        for name, parameter in model.named_parameters()
        if parameter.ndim == 2 and not any(part in name for part in embeddings)
    )
    assert weight_bytes(model) == 4 * counted
    lay_out(model)
    work = linear_inputs(model, 3)
    assert sum(layer.weight.numel() for layer, _ in work) == counted
    assert all(layer(x).shape[:2] == (3, 1) for layer, x in work)


def test_only_a_llama_is_written_for_llama_cpp() -> None:
    reasons = {family: why_not(tiny_model(family)) for family in FAMILIES}
    assert reasons.pop("llama") is None
    assert all("only a Llama is written" in str(reason) for reason in reasons.values())
