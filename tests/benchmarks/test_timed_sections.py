"""What the bench times besides one request: steps, many requests, and what each costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from typer.testing import CliRunner

from benchmarks import llama_cpp_variants
from benchmarks.__main__ import main
from benchmarks.bandwidth import weight_bytes
from benchmarks.step_variants import linear_inputs
from marith.evals.speed.benchmark_results import FLAGS, Machine, results
from marith.evals.speed.rounds import Sample
from marith.evals.speed.shape import LlamaShape
from marith.evals.speed.timed_model import TimedModel
from marith.scoring.layouts.laying_out import lay_out
from marith.testing import FAMILIES, tiny_model
from marith.testing.gguf_file import why_not

TINY = "32,2,4,48,64"
app = typer.Typer()
app.command()(main)


def timed(*arguments: str) -> dict[str, Any]:
    """What a run of one round on a tiny model writes, as data."""
    shape = () if "--model" in arguments else ("--shape", TINY)
    sizes = (*shape, "--tokens", "8", "--rounds", "1")
    done = CliRunner().invoke(app, [*sizes, *arguments, "--json", "-"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_variant_may_be_compared_with_another_than_the_first() -> None:
    samples = {name: [Sample(ms)] for name, ms in (("a", 2.0), ("b", 4.0), ("c", 12.0))}
    assert [one.ratio for one in results("step", samples, {"c": "b"})] == [1, 2, 3]


def test_the_processor_says_what_products_use() -> None:
    flags = torch.cpu.get_capabilities()
    assert set(Machine.here().flags) == {name for name in FLAGS if flags.get(name)}


@pytest.mark.parametrize("family", FAMILIES)
def test_products_alone_are_those_of_every_matrix_of_a_step(family: str) -> None:
    model = tiny_model(family)
    floats = sum(len(layer.weight.flatten()) for layer, _ in linear_inputs(model, 3))
    assert 4 * floats == weight_bytes(model)
    lay_out(model)
    work = linear_inputs(model, 3)
    assert sum(layer.weight.numel() for layer, _ in work) == floats
    assert all(layer(x).shape[:2] == (3, 1) for layer, x in work)


def test_requests_types_and_bits_are_those_that_are_asked_for() -> None:
    bits = ("--dtype", "bfloat16", "--quantize", "int8")
    data = timed("--only", "concurrency", "--requests", "3", "--requests", "1", *bits)
    assert [result["name"] for result in data["results"]] == ["1 request", "3 requests"]
    assert data["numbers"] == "int8 and bfloat16"


def test_requests_with_drafts_are_compared_with_those_without() -> None:
    data = timed("--only", "drafts", "--requests", "2", "--requests", "1", "--tokens", "24")
    results = {result["name"]: result for result in data["results"]}
    plain = ["1 request", "2 requests", "1 request, repeating", "2 requests, repeating"]
    assert [*results] == [name for one in plain for name in (one, f"{one}, auto")]
    for name in plain:
        without, with_drafts = results[name], results[f"{name}, auto"]
        assert without["acceptance"] is None
        share = with_drafts["milliseconds"] / without["milliseconds"]
        assert with_drafts["ratio"] == share
        accepted = with_drafts["acceptance"]
        assert accepted is None or 0 <= accepted <= 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_steps_are_timed_beside_one_of_llama_cpp_where_it_is(dtype: str) -> None:
    data = timed("--only", "step-peers", "--dtype", dtype)
    results = {result["name"]: result for result in data["results"]}
    counts = ("1 row", "4 rows", "8 rows", "64 rows")
    peers = [f"llama.cpp f32, {count}" for count in counts]
    assert [name for name in results if name not in peers] == [f"marith, {one}" for one in counts]
    assert any("llama.cpp" in note for note in data["notes"])
    for count, peer in zip(counts, peers, strict=True):
        ours = results[f"marith, {count}"]
        other = results.get(peer, results["marith, 1 row"])
        assert ours["ratio"] == ours["milliseconds"] / other["milliseconds"]


def test_peers_run_one_model_at_as_many_requests_as_the_engine() -> None:
    data = timed("--only", "peers", "--requests", "1", "--requests", "3")
    names = [result["name"] for result in data["results"]]
    peers = ("transformers generate", "transformers generate_batch", "marith")
    here = [one for one in names if not one.startswith("llama.cpp")]
    assert here == [f"{peer}, {count}" for count in ("1 request", "3 requests") for peer in peers]
    times = {one["name"]: one["milliseconds"] for one in data["results"]}
    for result in data["results"]:
        base = f"transformers generate, {result['name'].split(', ')[-1]}"
        assert result["ratio"] == result["milliseconds"] / times[base]
        assert result["tokens_per_second"] == 1e3 / result["milliseconds"]


def test_a_peer_that_refuses_is_named_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ValueError("no pages on this device")

    monkeypatch.setattr("transformers.LlamaForCausalLM.generate_batch", refuse)
    data = timed("--only", "peers", "--requests", "1")
    assert (
        "transformers generate_batch refuses: ValueError: no pages on this device" in data["notes"]
    )
    assert not any("generate_batch" in result["name"] for result in data["results"])


def test_texts_are_weighed_beside_what_the_process_grows_by(tmp_path: Path) -> None:
    plot = tmp_path / "memory.png"
    counts = ("--requests", "1", "--requests", "3")
    data = timed("--only", "memory,mixed", *counts, "--plot", str(plot))
    assert plot.read_bytes().startswith(b"\x89PNG")
    subject = TimedModel.of(shape=LlamaShape.parse(TINY))
    assert subject.token_bytes == 2 * 2 * 32 * 4
    data["results"] = [one for one in data["results"] if one["section"] == "memory"]
    held = [result["tokens_bytes"] for result in data["results"]]
    assert held == [count * (12 + 200 + 8 - 1) * subject.token_bytes for count in (1, 3)]
    assert all(isinstance(result["resident"], int | float) for result in data["results"])


def test_chats_go_on_beside_a_long_prompt_whose_first_token_is_timed() -> None:
    alone, beside, long = timed("--only", "mixed")["results"]
    assert alone["first_token"] is None
    assert beside["milliseconds"] > 0
    assert beside["first_token"] > 0
    assert long["first_token"] == long["milliseconds"] > 0


def test_a_new_process_says_what_its_import_loading_and_first_token_take() -> None:
    data = timed("--only", "start", "--model", "pocket")
    names = [result["name"] for result in data["results"]]
    assert names == ["import marith's engine", "load pocket", "the first token"]
    assert all(result["milliseconds"] > 0 for result in data["results"])


def test_without_llama_cpp_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_cpp_variants, "find_spec", lambda _: None)
    notes = timed("--only", "peers", "--requests", "1")["notes"]
    assert notes == ["llama.cpp is absent: without llama_cpp and gguf it is not timed"]


def test_only_a_llama_is_written_for_llama_cpp() -> None:
    reasons = {family: why_not(tiny_model(family)) for family in FAMILIES}
    assert reasons.pop("llama") is None
    assert all("only a Llama is written" in str(reason) for reason in reasons.values())
