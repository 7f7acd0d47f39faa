"""The bench: medians are medians, rounds are interleaved, and a run tells all that it measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import torch
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks.__main__ import main
from benchmarks.bandwidth import Floor, weight_bytes, with_floor
from benchmarks.benchmark_settings import SECTIONS
from marith.errors import ModelError
from marith.evals.reporting.evaluation_report import split_sections
from marith.evals.speed.benchmark_results import (
    Result,
    results,
)
from marith.evals.speed.rounds import Sample, Variant, interleave, pace
from marith.evals.speed.shape import LlamaShape
from marith.evals.speed.timed_model import TimedModel
from marith.testing import FAMILIES, tiny_model, tiny_tokenizer

TINY = "32,2,4,48,64"
NUMBERS = 2**16  # read to time the memory; how fast that is does not matter here
TERMS = ("transformers, one model", "transformers, guidance, 2 terms", "one after another, 4 terms",
         "marith, 1 term", "marith, 2 terms", "marith, 4 terms", "marith, 8 terms")  # fmt: skip
REQUESTS = ("1 request", "4 requests", "16 requests")
STEPS = tuple(f"{what}, {rows}" for rows in ("1 row", "4 rows", "8 rows", "64 rows")
              for what in ("products alone", "step"))  # fmt: skip
FIRST = ("marith, cold", "marith, warm", "one after another, cold")
MIXED = ("4 chats alone", "4 chats beside a long prompt", "the long prompt alone")
times = st.lists(st.floats(0.01, 1e4), min_size=1, max_size=9)

app = typer.Typer()
app.command()(main)


def bench(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [*arguments])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """One whole run on a tiny model, as JSON, and where its plot lies."""
    plot = tmp_path_factory.mktemp("bench") / "speed.png"
    sizes = ("--shape", TINY, "--tokens", "4", "--rounds", "1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.bandwidth.NUMBERS", NUMBERS)
        code, out, _ = bench(*sizes, "--json", "-", "--plot", str(plot))
    assert code == 0
    return json.loads(out), plot


@settings(max_examples=30)
@given(st.dictionaries(st.text(), times, min_size=1, max_size=4))
def test_medians_are_medians_and_ratios_are_over_the_first(taken: dict[str, list[float]]) -> None:
    samples = {name: [Sample(ms) for ms in series] for name, series in taken.items()}
    base = median(next(iter(taken.values())))
    found = [with_floor(one, Floor(8, 4.0, 2000.0)) for one in results("terms", samples)]
    assert found[0].ratio == 1
    for result, (name, series) in zip(found, taken.items(), strict=True):
        assert (result.name, list(result.samples)) == (name, series)
        assert result.milliseconds == median(series)
        assert result.ratio == pytest.approx(median(series) / base)
        assert result.floor_share == pytest.approx(2000 / median(series))
        assert result.per_second == pytest.approx(1000 / median(series))
        assert (result.first_token, result.passes_per_token) == (None, None)


@given(st.lists(st.tuples(st.floats(1e-4, 9), st.integers(1, 5)), min_size=2, max_size=9))
def test_the_pace_is_the_time_after_the_first_arrival_over_the_tokens_after_it(
    steps: list[tuple[float, int]],
) -> None:
    arrivals = [(sum(s for s, _ in steps[: i + 1]), count) for i, (_, count) in enumerate(steps)]
    later = steps[1:]
    expected = 1e3 * sum(s for s, _ in later) / sum(count for _, count in later)
    assert pace(arrivals) == pytest.approx(expected, rel=1e-6)
    assert pace(arrivals[:1]) == pytest.approx(1e3 * steps[0][0] / steps[0][1])


@pytest.mark.parametrize(("count", "rounds"), [(1, 1), (2, 3), (3, 2)])
def test_every_round_has_every_variant_once_and_the_first_round_is_not_counted(
    count: int, rounds: int
) -> None:
    order: list[tuple[int, int]] = []

    def variant(i: int) -> Variant:
        def run(turn: int) -> Sample:
            order.append((turn, i))
            return Sample(float(turn))

        return Variant(str(i), run)

    told: list[str] = []
    samples = interleave([variant(i) for i in range(count)], rounds, told.append)
    assert [turn for turn, _ in order] == sorted(list(range(rounds + 1)) * count)
    assert len(set(order)) == len(order) == len(told)
    assert {order[turn * count][1] for turn in range(rounds + 1)} == set(
        range(min(count, rounds + 1))
    )
    expected = [Sample(float(turn)) for turn in range(1, rounds + 1)]
    assert all(taken == expected for taken in samples.values())


def test_a_whole_run_has_every_variant_in_its_order(whole: tuple[dict[str, Any], Path]) -> None:
    data, _ = whole
    names = [(result["section"], result["name"]) for result in data["results"]]
    assert names == [
        *(("terms", name) for name in TERMS),
        *(("step", name) for name in STEPS),
        *(("concurrency", name) for name in REQUESTS),
        *(("first-token", name) for name in FIRST),
        *(("mixed", name) for name in MIXED),
    ]
    assert (data["model"], data["tokens"], data["rounds"]) == (f"random Llama {TINY}", 4, 1)
    model = TimedModel.of(shape=LlamaShape.parse(TINY)).model
    assert data["parameters"] == model.num_parameters()


def test_terms_on_one_checkpoint_are_one_pass_a_token(whole: tuple[dict[str, Any], Path]) -> None:
    terms = [result for result in whole[0]["results"] if result["section"] == "terms"]
    ours = [result["passes_per_token"] for result in terms if result["name"].startswith("marith")]
    assert ours == [1, 1, 1, 1]
    assert all(result["first_token"] > 0 for result in terms)


def test_what_follows_from_the_times_follows(whole: tuple[dict[str, Any], Path]) -> None:
    data, _ = whole
    floor, bases = data["floor"], {}
    times = {(one["section"], one["name"]): one["milliseconds"] for one in data["results"]}
    assert floor["milliseconds"] == 1e3 * floor["weight_bytes"] / floor["bytes_per_second"]
    for result in data["results"]:
        ms, section = result["milliseconds"], result["section"]
        assert ms == median(result["samples"]) > 0
        base = bases.setdefault(section, ms)
        if result["name"].startswith("step"):
            base = times[section, result["name"].replace("step", "products alone")]
        elif result["name"] == MIXED[-1]:
            base = ms
        assert result["ratio"] == ms / base
        share = floor["milliseconds"] / ms if section == "terms" else None
        assert result["floor_share"] == share
        speed = 1e3 / ms if section == "concurrency" else None
        assert result["tokens_per_second"] == speed


def test_a_step_tells_what_of_it_no_pass_took(whole: tuple[dict[str, Any], Path]) -> None:
    steps = [one for one in whole[0]["results"] if one["name"].startswith("step")]
    assert len(steps) == 4
    assert all(0 < one["host"] < one["milliseconds"] for one in steps)


def test_a_plot_is_drawn(whole: tuple[dict[str, Any], Path]) -> None:
    assert whole[1].read_bytes().startswith(b"\x89PNG")


def test_a_model_given_with_a_shape_is_measured_at_the_cost_of_the_shape() -> None:
    subject = TimedModel.of("pocket", LlamaShape.parse("320,7,5,768,4096"))
    config = subject.model.config
    assert (config.hidden_size, config.num_hidden_layers, config.intermediate_size) == (320, 7, 768)
    assert subject.vocabulary.eos_ids == frozenset()
    assert TimedModel.of("pocket").model.num_parameters() < subject.model.num_parameters()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_floor_counts_every_matrix_once_but_the_embeddings(family: str) -> None:
    model = tiny_model(family)
    embeddings = ("embed_tokens", "embed_in", "wte", "wpe")
    counted = sum(
        parameter.numel()
        for name, parameter in model.named_parameters()
        if parameter.ndim == 2 and not any(part in name for part in embeddings)
    )
    assert weight_bytes(model) == 4 * counted
    assert weight_bytes(model.to(torch.bfloat16)) == 2 * counted


def test_prompts_are_as_long_as_asked_and_never_twice_the_same() -> None:
    subject = TimedModel.of(shape=LlamaShape.parse(TINY))
    one, same, other = (subject.prompt(3, seed, 30, 5) for seed in ("a", "a", "b"))
    assert one == same
    assert len({*one.systems, *other.systems}) == 6
    assert [len(reading) for reading in subject.readings(one)] == [35, 35, 35]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--shape", "768,12,12"), "HIDDEN,LAYERS,HEADS,INTERMEDIATE,VOCABULARY"),
        (("--shape", "768,12,0,2048,16000"), "'768,12,0,2048,16000'"),
        (("--shape", "770,12,12,2048,16000"), "which 770 does not for 12 heads"),
        (("--shape", "32,2,4,48,8"), "vocabulary is from 32, not 8"),
        (("--tokens", "1"), "tokens is a whole number from 2, not 1"),
        (("--rounds", "0"), "rounds is a whole number from 1, not 0"),
        (("--shape", TINY, "--tokens", "100000"), "28 tokens: 100000 more do not fit"),
        (("--shape", TINY, "--tokens", "2021"), "which holds 2048"),
        (("--requests", "0"), "requests is a whole number from 1 to 1024, not 0"),
        (("--dtype", "int9"), "a floating-point type of torch"),
        (("--quantize", "int3"), "quantize is 'int8' or 'int4'"),
        (("--only", "terms,"), "not ''"),
        (("--only", "terms,speed"), "not 'speed'"),
        (("--only", "speed"), "floor, drafts, memory, start, peers, step-peers, not 'speed'"),
        (("--model", "/no/where"), "'/no/where'"),
        (("--json", "/no/where/x.json"), "'/no/where/x.json'"),
        (("--plot", "/no/where/x.png"), "'/no/where/x.png'"),
        (("--plot", "x.doc"), ".png, .svg, .pdf, not 'x.doc'"),
        (("--plot", "x.png", "--only", "floor"), "not 'floor' alone"),
        (("--model", "pocket", "--shape", "768,12,12,2048,16000"), "has 4096, not 16000 tokens"),
        (("--model", "pocket", "--shape", "768,12,6,2048,4096"), "has 12, not 6 heads"),
    ],
)
def test_bad_values_are_one_sentence_and_exit_code_2(
    arguments: tuple[str, ...], words: str
) -> None:
    code, out, err = bench(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


def test_a_plot_without_matplotlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as where it is not installed
    code, out, err = bench("--plot", "x.png")
    assert (code, out) == (2, "")
    assert "pip install 'marith[evals]'" in err


def test_the_floor_alone_is_three_lines_and_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.bandwidth.NUMBERS", NUMBERS)
    code, out, _ = bench("--shape", TINY, "--only", "floor")
    assert code == 0
    title, floor, processor = out.splitlines()
    subject = TimedModel.of(shape=LlamaShape.parse(TINY))
    assert f": {subject.model.num_parameters() / 1e3:.1f} K parameters, " in title
    assert f"floor: {weight_bytes(subject.model) / 1e3:.1f} KB of weights at" in floor
    assert processor.startswith("processor: ")
    assert float(floor.split(" are ")[1].split()[0]) > 0


def test_sections_are_named_with_commas_or_one_by_one_and_only_they_are_timed(
    tmp_path: Path,
) -> None:
    assert split_sections(["first-token, floor", "terms"], SECTIONS) == (
        *("first-token", "floor"),
        "terms",
    )
    assert split_sections([], SECTIONS) == SECTIONS
    path = tmp_path / "speed.json"
    sizes = ("--shape", TINY, "--tokens", "2", "--rounds", "2")
    code, out, _ = bench(*sizes, "--only", "first-token", "--json", str(path))
    assert code == 0
    data = json.loads(path.read_text(encoding="utf-8"))
    assert [result["name"] for result in data["results"]] == list(FIRST)
    assert all(len(result["samples"]) == 2 for result in data["results"])
    assert all(result["first_token"] is None for result in data["results"])
    assert data["floor"] is None
    assert all(name in out for name in (*FIRST, "medians of 2 rounds"))
    assert "requests" not in out


def test_the_longest_prompt_is_counted_in_tokens_beside_the_context() -> None:
    subject = TimedModel.of(shape=LlamaShape.parse(TINY))
    assert (subject.longest(), subject.longest(30, 5), subject.context_length) == (28, 35, 2048)


def test_a_result_says_how_many_there_are_in_a_second() -> None:
    assert Result("concurrency", "2 requests", 4.0, 0.5, (4.0,)).per_second == 250


def test_a_model_without_words_cannot_be_prompted(tmp_path: Path) -> None:
    tiny_model().save_pretrained(tmp_path)
    tiny_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="at least 30, but it has 26"):
        TimedModel.of(str(tmp_path))
