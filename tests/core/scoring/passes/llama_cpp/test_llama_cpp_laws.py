"""The laws of scorers, held by llama.cpp: within the rounding of its own kernels.

It multiplies a row by other kernels beside others, and keeps keys in float16: so answers alone and
in a batch differ by rounding, which BATCH bounds, per format, in total variation. Run by
`make llamacpp`, which builds the library; skipped where it is absent.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.ggml_files import FORMATS, Q4_K, apart, chat, write_adapter
from support.gguf_families import family_model, write_family
from support.held_passes import scorer_of
from support.runner_questions import ask, span_of

from marith import Classifier, Engine, ModelError, Plan, Prompted, Request, Sampling, Stop
from marith.testing import cached_bytes

pytest.importorskip("llama_cpp", reason="llama-cpp-python is absent: `make llamacpp` builds it")

from marith.scoring.passes.llama_cpp.llama_cpp_runner import STEERED
from marith.scoring.weights.control_vectors import write
from marith.scoring.weights.llama_cpp.ggml import FEWEST, GGMLContext, Item

WITHIN = 0.005  # nats: llama.cpp keeps keys and values in float16, and 0.003 without vectors

PROMPTS = [
    "Tell me of 12 dogs.", "Who are you?", "Name a color, and say why you like it so much.",
    "Hi", "What is two plus two?", "Write a line on the sea.",
]  # fmt: skip
TERMS: dict[str, Any] = {"rude": "You are rude.", "kind": "You are kind and calm."}
FORMULA = "M - 0.4*rude + 0.3*kind"


def test_llama_cpp_computes_the_dequantised_model(
    engine: Engine, folder: Path, numbers: str
) -> None:
    with Engine.load(folder / f"{numbers}.gguf") as plain:
        for prompt in PROMPTS:
            rows = [one.next_logprobs(chat(prompt), FORMULA, TERMS) for one in (engine, plain)]
            assert apart(*rows) <= FORMATS[numbers][1]


def test_k_formats_are_read_by_both(folder: Path) -> None:
    with Engine.load(Q4_K, backend="llama.cpp") as one, Engine.load(Q4_K) as other:
        assert apart(one.next_logprobs("the thing"), other.next_logprobs("the thing")) <= 0.05
        assert one.encode("the thing") == other.encode("the thing")


def test_one_request_alone_equals_a_direct_call_of_llama_cpp(engine: Engine) -> None:
    """The same call gives the same numbers."""
    tokens = engine.open(Request(chat(PROMPTS[0]))).prompt
    context = GGMLContext(scorer_of(engine).checkpoint.model)
    items = [Item(token, i, 0, i == len(tokens) - 1) for i, token in enumerate(tokens)]
    logits = context.decode(items)
    assert logits is not None
    wanted = torch.from_numpy(logits[0]).log_softmax(-1)
    found = engine.next_logprobs(chat(PROMPTS[0]))
    assert float((found - wanted).abs().max()) <= 2e-6  # of torch's own last bits


def test_batched_scores_equal_scores_alone(engine: Engine, folder: Path, numbers: str) -> None:
    continuation = "They say that dogs are kind."
    with Engine.load(folder / f"{numbers}.gguf", backend="llama.cpp") as fresh:
        alone = [fresh.score(chat(one), continuation, FORMULA, TERMS) for one in PROMPTS]
    futures = [engine.submit_scoring(chat(one), continuation, FORMULA, TERMS) for one in PROMPTS]
    for future, wanted in zip(futures, alone, strict=True):
        found = future.result().logprobs
        far = [abs(np.exp(a) - np.exp(b)) for a, b in zip(found, wanted, strict=True)]
        assert max(far) <= FORMATS[numbers][0]


def test_cached_prefixes_and_rollbacks_do_not_change_results(
    engine: Engine, folder: Path, numbers: str
) -> None:
    """Texts that begin alike, one after another, in an engine that keeps what it has read."""
    start = "Once there were three dogs, and they lived by the sea, and every day they "
    for end, count in itertools.product(("ran.", "slept in the sun", ""), (1, 2)):
        kept = engine.next_logprobs(chat(start * count + end), FORMULA, TERMS)
        with Engine.load(folder / f"{numbers}.gguf", backend="llama.cpp") as fresh:
            anew = fresh.next_logprobs(chat(start * count + end), FORMULA, TERMS)
        assert apart(kept, anew) <= FORMATS[numbers][0]
    assert engine.generate(chat(start * 2), stop=Stop(2)).stats.cached > 20


def test_memory_grows_with_what_is_held(exact: Engine) -> None:
    context = scorer_of(exact).runner._bare.lanes.context
    assert context.cells == FEWEST
    long = "The sea is wide and blue. " * 60
    before = exact.next_logprobs(chat("Who are you?"))
    row = exact.next_logprobs(chat(long), FORMULA, TERMS)
    assert context.cells > 3 * FEWEST
    with Engine.load("pocket") as plain:
        assert apart(row, plain.next_logprobs(chat(long), FORMULA, TERMS)) <= 0.01
    assert apart(before, exact.next_logprobs(chat("Who are you?"))) <= 0.004


def test_a_little_memory_is_enough_for_one_text_after_another(folder: Path) -> None:
    bytes_each = 2 * 6 * 4 * 64 * 2  # keys and values of a token, in float16
    with Engine.load(
        folder / "f32.gguf", backend="llama.cpp", cache_bytes=700 * bytes_each
    ) as small:
        for i in range(8):
            small.next_logprobs(chat(f"{i} " + "The sea is wide and blue. " * 40))
        assert cached_bytes(small) <= 1100 * bytes_each


@pytest.mark.parametrize("plan", ["auto", Plan({"rude": 3, "kind": 3})])
def test_drafts_leave_the_text_as_it_is(exact: Engine, plan: Any) -> None:
    asked = Sampling(temperature=0), Stop(24)
    wanted = exact.generate(chat(PROMPTS[0]), FORMULA, TERMS, *asked, speculation=None)
    found = exact.generate(chat(PROMPTS[0]), FORMULA, TERMS, *asked, speculation=plan)
    assert found.tokens == wanted.tokens


def test_adapters_are_those_of_the_torch_model(exact: Engine, tmp_path: Path) -> None:
    """Each has a context of its own; the base model's rows are as without them."""
    names = {"polite": "pocket-polite", "rude": "pocket-rude"}
    terms = {key: Prompted(adapter=name) for key, name in names.items()}
    files = {key: write_adapter(name, tmp_path / f"{key}.gguf") for key, name in names.items()}
    written = {key: Prompted(adapter=file) for key, file in files.items()}
    with Engine.load("pocket") as plain:
        for formula in ("polite", "M + polite - 0.5*rude"):
            found = exact.next_logprobs(chat("Hi"), formula, written)
            assert apart(found, plain.next_logprobs(chat("Hi"), formula, terms)) <= 0.004
        assert apart(exact.next_logprobs(chat("Hi")), plain.next_logprobs(chat("Hi"))) <= 0.004
    with pytest.raises(ModelError, match="convert_lora_to_gguf"):
        exact.next_logprobs(chat("Hi"), "polite", terms)


def test_vectors_are_those_of_the_torch_model(exact: Engine, tmp_path: Path) -> None:
    """The number of a direction names the same layer in both, and strengths differ by row."""
    name, zero = str(tmp_path / "v.gguf"), str(tmp_path / "zero.gguf")
    with Engine.load("pocket") as plain:
        config = scorer_of(plain).checkpoint.model.config
        draw = torch.Generator().manual_seed(1)
        rows = torch.randn(config.num_hidden_layers, config.hidden_size, generator=draw) * 0.3
        write(tmp_path / "v.gguf", {layer: rows[layer] for layer in (1, 3, 4)}, "llama")
        write(tmp_path / "zero.gguf", {0: rows[0]}, "llama")
        terms = {
            "up": Prompted(vectors=((name, 1.0),)),
            "down": Prompted("You are kind.", vectors=((name, -0.5),)),
        }
        for formula in ("up", "down", "M + 0.7*(up - M)", "union(up, down)"):
            found = exact.next_logprobs(chat("Hi"), formula, terms)
            wanted = plain.next_logprobs(chat("Hi"), formula, terms)
            assert float((found - wanted).abs().max()) <= WITHIN
            assert apart(found, wanted) <= 1e-3
        write(tmp_path / "next.gguf", {layer: rows[layer - 1] for layer in (2, 4, 5)}, "llama")
        other = plain.next_logprobs(
            chat("Hi"), Prompted(vectors=((str(tmp_path / "next.gguf"), 1.0),))
        )
        assert float((exact.next_logprobs(chat("Hi"), "up", terms) - other).abs().max()) > 0.1
        asked = Sampling(temperature=0), Stop(64)
        texts = [one.generate(chat("Hi"), "up", terms, *asked) for one in (exact, plain)]
        assert texts[0].tokens == texts[1].tokens
    runner = scorer_of(exact).runner
    for step in range(2 * STEERED):
        exact.next_logprobs(chat("Hi"), Prompted(vectors=((name, step / 8),)))
        assert sum(bool(one.shifts) for one in runner._adapted) <= STEERED
    degrees = {f"t{i}": Prompted(vectors=((name, i / 8),)) for i in range(1, STEERED + 2)}
    most = list(degrees)[:STEERED]
    assert exact.generate(chat("Hi"), " + ".join(most), degrees, Sampling(seed=1), Stop(3)).tokens
    beside = exact.submit(Request(chat("Hi"), "M", {}, Sampling(seed=1), Stop(40)))
    with pytest.raises(ModelError, match=r"cannot use more than 4 sets of vectors and strengths"):
        exact.generate(chat("Hi"), " + ".join(degrees), degrees, Sampling(seed=1), Stop(3))
    assert beside.result(60).text
    assert sum(bool(one.shifts) for one in runner._adapted) <= STEERED
    with pytest.raises(ModelError, match=r"cannot add the direction of layer 0 in .*backend=None"):
        exact.next_logprobs(chat("Hi"), Prompted(vectors=((zero, 1.0),)))
    with pytest.raises(ModelError, match="cannot add vectors with positions='answer'"):
        exact.next_logprobs(chat("Hi"), Prompted(vectors=((name, 1.0),), positions="answer"))


def write_pushes(path: Path, engine: Engine) -> str:
    model, draw = scorer_of(engine).checkpoint.model, torch.Generator().manual_seed(2)
    write(path, {n: torch.randn(model.width, generator=draw) * 0.3 for n in (1, 3)}, "llama")
    return str(path)


def test_equal_adapters_of_a_file_that_was_written_again_share_steps(
    exact: Engine, tmp_path: Path
) -> None:
    name, scorer = write_pushes(tmp_path / "v.gguf", exact), scorer_of(exact)
    term, adapters = Prompted(vectors=((name, 1.0),)), []
    for seconds in (1, 2):
        os.utime(name, (seconds, seconds))
        adapters.append(scorer.load(term))
    assert adapters[0] is not adapters[1]
    assert adapters[0] == adapters[1]
    prompts = [exact.encode(one) for one in PROMPTS]
    asked = [
        span_of(i, prompt, 1, adapter)
        for i, (prompt, adapter) in enumerate(zip(prompts, [None, *adapters] * 2, strict=True))
    ]
    for one, answer in zip(asked, ask(scorer.runner, asked), strict=True):
        [alone] = ask(scorer.runner, [span_of("alone", one.lane.prompt, 1, one.lane.adapter)])
        assert apart(answer.logprobs[0], alone.logprobs[0]) <= FORMATS["f32"][0]


def test_a_fifth_set_of_vectors_is_refused_before_anything_is_read(
    exact: Engine, tmp_path: Path
) -> None:
    name, scorer = write_pushes(tmp_path / "v.gguf", exact), scorer_of(exact)
    sets = [scorer.load(Prompted(vectors=((name, i / 8),))) for i in range(1, STEERED + 2)]
    asked = [span_of(i, exact.encode(PROMPTS[i]), 1, one) for i, one in enumerate(sets)]
    passes = scorer.runner.passes
    # Alone, and beside two sets whose texts have not ended.
    for held, more in ((asked[:0], asked), (asked[:2], asked[2:])):
        if held:
            ask(scorer.runner, held)
        before = passes.count
        with pytest.raises(ModelError, match="cannot use more than 4 sets of vectors and strength"):
            ask(scorer.runner, more)
        assert passes.count == before
    assert len(ask(scorer.runner, asked[1:3])) == 2
    scorer.runner.release(asked[0].lane)
    assert len(ask(scorer.runner, asked[1:])) == STEERED
    assert scorer.load(Prompted(vectors=((name, 0.0),))) is None


def test_terms_of_torch_stand_beside_those_of_llama_cpp(exact: Engine, folder: Path) -> None:
    terms = {
        "small": Prompted(model="pocket-draft"),
        "file": Prompted("You are rude.", model=str(folder / "q8_0.gguf")),
        "toxic": Classifier("pocket-toxicity", "toxic"),
    }
    formula = "M + 0.2*small - 0.3*file - 0.5*toxic"
    with Engine.load("pocket") as plain:
        rows = [one.next_logprobs(chat("Hi"), formula, terms) for one in (exact, plain)]
    assert apart(*rows) <= 0.03
    names = exact.status().checkpoints
    assert len(names) == 4


def test_a_recurrent_model_is_read_anew_where_it_cannot_be_cut_back(
    tmp_path: Path, tokenizer: Any
) -> None:
    model = family_model("mamba", 4096)
    write_family(model, tmp_path / "it.gguf", tokenizer)
    with (
        Engine.load(tmp_path / "it.gguf", backend="llama.cpp", max_lanes=64) as one,
        Engine.load(tmp_path / "it.gguf", dtype="float32") as plain,
    ):
        assert scorer_of(one).checkpoint.model.recurrent
        for text in ("the sea is wide", "the sea is", "the sea is blue", "the sea is wide"):
            rows = [each.next_logprobs(text, FORMULA, TERMS) for each in (one, plain)]
            assert apart(*rows) <= 0.01
        futures = [one.submit_scoring(f"{i} dogs", "are kind", FORMULA, TERMS) for i in range(20)]
        found = [sum(future.result().logprobs) for future in futures]
        wanted = [sum(plain.score(f"{i} dogs", "are kind", FORMULA, TERMS)) for i in range(20)]
        assert max(abs(a - b) for a, b in zip(found, wanted, strict=True)) <= 0.05


def test_requests_that_are_cancelled_leave_nothing(exact: Engine) -> None:
    tickets = [
        exact.submit(Request(chat(f"{i}"), FORMULA, TERMS, stop=Stop(200))) for i in range(40)
    ]
    for ticket in tickets[::2]:
        ticket.cancel()
    texts = [ticket.result() for ticket in tickets[1::2]]
    assert all(text.tokens for text in texts)
    assert exact.status().lanes == 0
