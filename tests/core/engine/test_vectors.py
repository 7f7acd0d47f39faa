"""Steered terms: the engine samples what a model with the vectors in its biases gives."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.distributions import close
from support.held_passes import scorer_of
from support.reference import Reference
from support.small_engine import END, VOCAB, SmallEngine, answers, draws, share_of_rejected
from torch import Tensor, nn

from marith import Engine, ModelError, Plan, Prompted, Request, Sampling, Stop
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.weights.control_vectors import write
from marith.testing import passes_of, tiny_model, tiny_tokenizer

PROMPTS = ("a b", "c", "e f a d a b c a", "b b")
LONG = " ".join("abcdefabcdabcdefabcdabcdef")


def directions(model: Any, seed: int) -> dict[int, Tensor]:
    draw, width = torch.Generator().manual_seed(seed), model.config.hidden_size
    return {layer: torch.randn(width, generator=draw) for layer in range(2)}


def pushed(model: Any, shifts: dict[int, Tensor], strength: float) -> Any:
    """Return a plain model whose MLPs add the directions as biases: they end decoder layers."""
    other = copy.deepcopy(model)
    # A copy of fewer layers is made by the configuration, and then all products have biases.
    other.config.mlp_bias = True
    for layer, direction in shifts.items():
        mlp = other.model.layers[layer].mlp
        mlp.down_proj.bias = nn.Parameter(strength * direction)
        for linear in (mlp.gate_proj, mlp.up_proj):
            linear.bias = nn.Parameter(torch.zeros(linear.out_features))
    return other.eval()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, Tensor]]:
    """Two vectors: their files, and what they hold."""
    base, folder, found = tiny_model(vocab=VOCAB), tmp_path_factory.mktemp("vectors"), {}
    for seed in (1, 2):
        path = folder / f"{seed}.gguf"
        found[str(path)] = directions(base, seed)
        write(path, found[str(path)], "llama")
    return found


@pytest.fixture(scope="module")
def small(files: dict[str, dict[int, Tensor]]) -> Iterator[SmallEngine]:
    base, tokenizer = (
        tiny_model(vocab=VOCAB, seed=30, sharpness=3.0),
        tiny_tokenizer(tuple("abcdef")),
    )
    words = Vocabulary(tokenizer, VOCAB, [END])
    models = {
        f"{path} {s}": (pushed(base, made, s), words)
        for path, made in files.items()
        for s in (1.0, -0.5)
    }
    reference = Reference({None: (base, words), **models})
    with Engine.load(base, tokenizer=tokenizer, max_lanes=288, max_queue=4096) as engine:
        yield SmallEngine(engine, reference, {})


def terms_of(files: Sequence[str]) -> tuple[dict[str, Prompted], dict[str, Prompted]]:
    """Return two steered terms and a plain one, and the same terms of models with biases."""
    first, second = files
    plain = {"x": Prompted("b c")}
    steered = {
        "s": Prompted("d", vectors=((first, 1.0),)),
        "t": Prompted(vectors=((second, -0.5),)),
        "early": Prompted("d", vectors=((first, 1.0),), exit_layer=1),
    }
    twins = {
        "s": Prompted("d", model=f"{first} 1.0"),
        "t": Prompted(model=f"{second} -0.5"),
        "early": Prompted("d", model=f"{first} 1.0", exit_layer=1),
    }
    return plain | steered, plain | twins


FORMULAS = (
    "s",
    "t",
    "M + 0.7*(s - M)",
    "x - 0.6*s + M",
    "union(s, x)",
    "(M + s).min_p(0.1)",
    "2*s - early",
)


@pytest.mark.parametrize("formula", FORMULAS)
def test_steered_terms_are_the_models_with_biases(
    small: SmallEngine, files: dict[str, Any], formula: str
) -> None:
    steered, twins = terms_of([*files])
    for prompt in (*PROMPTS, LONG, LONG):
        got = small.engine.next_logprobs(prompt, formula, terms=steered)
        close(got, small.reference.distribution(Request(prompt, formula, twins), [])[0])


PLANNED = {
    "two plain terms draft, the steered one verifies": Plan.factors({"x": 1, "M": 2, "s": 4}),
    "the steered term drafts": Plan.factors({"s": 1, "x": 2, "M": 3}),
}


@pytest.mark.parametrize("name", PLANNED)
def test_drafts_leave_the_distribution(
    small: SmallEngine, files: dict[str, Any], name: str
) -> None:
    steered, twins = terms_of([*files])
    asked = [
        Request(
            PROMPTS[i % len(PROMPTS)], "M + 0.8*s - 0.6*x", {k: steered[k] for k in "sx"},
            Sampling(1.0, seed=i), Stop(16 - i % 4), PLANNED[name],
        )
        for i in range(240)
    ]  # fmt: skip
    done = answers(small, asked)
    assert sum(one.stats.accepted for one in done) >= 100
    assert share_of_rejected(done) >= 0.1
    truths = [replace(one, terms={k: twins[k] for k in "sx"}) for one in asked]
    drawn = draws(small, truths, done)
    assert len(drawn.tokens) >= 800
    assert drawn.of_marginals() > 1e-3
    assert drawn.of_pairs() > 1e-3
    bare = [replace(one, terms={"s": Prompted("d"), "x": twins["x"]}) for one in asked]
    assert draws(small, bare, done).of_pairs() < 1e-6


def test_requests_beside_each_other_get_what_they_get_alone(
    small: SmallEngine, files: dict[str, Any]
) -> None:
    steered, _ = terms_of([*files])
    formulas = ["M", "s", "2*t - M", "M + s - 0.5*t", "x"] * 2
    asked = [
        Request(PROMPTS[i % 4], formula, steered, Sampling(seed=i), Stop(15))
        for i, formula in enumerate(formulas)
    ]
    alone = [small.engine.submit(one).result(60) for one in asked]
    before = passes_of(small.engine).count
    together = answers(small, asked)
    assert [one.tokens for one in together] == [one.tokens for one in alone]
    passes = passes_of(small.engine).count - before
    assert passes < sum(one.stats.passes for one in alone) / 2


def test_strength_zero_is_the_bare_model(small: SmallEngine, files: dict[str, Any]) -> None:
    [first, _] = files
    for positions in ("all", "answer"):
        term = Prompted(vectors=((first, 0.0),), positions=positions)
        got = small.engine.next_logprobs(LONG, term)
        close(got, small.engine.next_logprobs(LONG, "M"))
        # It shares the lane of the bare model.
        scorer = scorer_of(small.engine)
        assert scorer.load(term) is scorer.find(term) is None
    with pytest.raises(ModelError, match=r"there is no control vector 'absent\.gguf'"):
        small.engine.generate("a", Prompted(vectors=(("absent.gguf", 0.0),)))


def test_an_answer_is_steered_and_its_prompt_is_not(
    small: SmallEngine, files: dict[str, Any]
) -> None:
    """In the next turn the steered answer is prompt, and no cached state of it is used."""
    [first, _] = files
    term = Prompted(vectors=((first, 1.0),), positions="answer")
    base, _ = small.reference.models[None]
    prompt = LONG
    for _ in range(3):
        tokens = small.engine.encode(prompt)
        got = small.engine.next_logprobs(prompt, term)
        want = steered_at_end(base, files[first], tokens)
        torch.testing.assert_close(got.float(), want, atol=1e-4, rtol=0)
        answer = small.engine.generate(
            prompt, term, sampling=Sampling(seed=1), stop=Stop(20, min_tokens=20)
        )
        prompt = f"{prompt} {answer.text}"


@torch.inference_mode()
def steered_at_end(model: Any, shifts: dict[int, Tensor], tokens: Sequence[int]) -> Tensor:
    """Return log-probabilities of a model with hooks that steer only the last token."""

    def hook(layer: int) -> Any:
        def add(_module: Any, _inputs: Any, output: Any) -> Any:
            output = output.clone()
            output[:, -1] += shifts[layer]
            return output

        return add

    handles = [model.model.layers[n].register_forward_hook(hook(n)) for n in shifts]
    try:
        return torch.log_softmax(model(torch.tensor([[*tokens]])).logits[0, -1].float(), -1)
    finally:
        for handle in handles:
            handle.remove()


def test_a_vector_of_another_model_fails_only_its_request(
    small: SmallEngine, tmp_path: Path
) -> None:
    other = tmp_path / "other.gguf"
    write(other, {1: torch.ones(7)}, "llama")
    with pytest.raises(ModelError, match="directions have 7 numbers, and this model's states 32"):
        small.engine.generate("a", Prompted(vectors=((str(other), 1.0),)))
    assert small.engine.generate("a", stop=Stop(2)).text is not None


def test_a_strength_that_is_too_large_for_the_type_is_refused(files: dict[str, Any]) -> None:
    """The weights are not blamed for the NaN that would follow."""
    [first, _] = files
    model, tokenizer = tiny_model(vocab=VOCAB).half(), tiny_tokenizer(tuple("abcdef"))
    with Engine.load(model, tokenizer=tokenizer) as engine:
        with pytest.raises(ModelError, match=r"1\.gguf' with strength 100000\.0 is too large for"):
            engine.next_logprobs("a", Prompted(vectors=((first, 1e5),)))
        assert engine.next_logprobs("a", Prompted(vectors=((first, 1.0),))).isfinite().any()
