"""The runner answers as the uncached model: in batches, after rollbacks, and from copied lanes."""

from __future__ import annotations

import math
import warnings
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.runner_questions import CLOSE, CONTEXT, VOCAB, ask, runner_of, span_of, uncached
from support.runner_rounds import Round, require_answers, rounds, tokens
from transformers import (
    MistralConfig,
    MistralForCausalLM,
)

from marith.scoring.choose_runner import start_runner
from marith.scoring.passes import chunked_prefill
from marith.scoring.passes import lanes as lanes_module
from marith.scoring.passes.passes import ModelPasses
from marith.tensor_rows import has_nan
from marith.testing import FAMILIES, tiny_model

EACH = settings().max_examples  # shared out to the families

SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": VOCAB,
         "max_position_embeddings": CONTEXT}  # fmt: skip

cached_model = cache(tiny_model)


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=EACH // 2)
@given(script=rounds())
def test_any_sequence_of_questions_is_answered_as_without_a_cache(
    family: str, script: list[Round]
) -> None:
    model = cached_model(family)
    require_answers(model, runner_of(model), script)


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=EACH // 3)
@given(script=rounds())
def test_models_with_flat_distributions_are_answered_within_1e_5(
    family: str, script: list[Round]
) -> None:
    model = cached_model(family, sharpness=1.0)
    require_answers(model, runner_of(model), script, close=1e-5)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@settings(max_examples=EACH // 2)
@given(script=rounds(longest_tail=25), sizes=st.tuples(*[st.integers(1, 6)] * 4))
def test_texts_longer_than_a_chunk_are_answered_as_without_a_cache(
    family: str, script: list[Round], sizes: tuple[int, int, int, int]
) -> None:
    model = cached_model(family)
    runner = start_runner(model, VOCAB, CONTEXT, max_batched_tokens=sizes[0])
    with pytest.MonkeyPatch.context() as patch:
        for name, size in zip(
            ("FEW_TOKENS", "FREE_TOKENS", "SHORT_PREFIX"), sizes[1:], strict=True
        ):
            patch.setattr(chunked_prefill, name, size)
        patch.setattr(lanes_module, "SHORT_PREFIX", sizes[3])
        require_answers(model, runner, script)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neox"])
@settings(max_examples=EACH // 3)
@given(script=rounds())
def test_eager_attention_is_answered_as_without_a_cache(family: str, script: list[Round]) -> None:
    model = eager_model(family)
    require_answers(model, runner_of(model), script)


@cache
def eager_model(family: str) -> Any:
    model = tiny_model(family)
    model.set_attn_implementation("eager")
    return model


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_half_precision_is_answered_within_its_own_rounding(
    dtype: torch.dtype, family: str, attention: str
) -> None:
    model = tiny_model(family, sharpness=1.0).to(dtype)
    model.set_attn_implementation(attention)
    script: list[Round] = [
        [(0, 0, [1, 2, 3, 4, 5], 1, False), (1, 0, [6, 7], 1, False)],
        [(0, 5, [8], 1, False), (1, 1, [9, 10, 11], 3, False), (2, 0, [3] * 20, 20, False)],
    ]
    require_answers(model, runner_of(model), script, close=0.02 if dtype == torch.float16 else 0.15)


def test_many_lanes_cost_one_pass_and_report_it() -> None:
    runner = runner_of(cached_model("llama"))
    assert runner.passes.count == 0
    texts = [[1, 2, 3 + i] for i in range(6)]
    runner.ask([span_of(i, text) for i, text in enumerate(texts)])
    assert runner.passes.count == 1
    answers = ask(runner, [span_of(i, [*text, 9]) for i, text in enumerate(texts)])
    assert runner.passes.count == 2
    assert all(answer.passes == {2} for answer in answers)


def test_passes_count_the_models_forward_calls() -> None:
    model = tiny_model("llama")
    runner, calls = runner_of(model), []
    runner.passes.reader.register_forward_hook(lambda *_: calls.append(1))
    runner.ask([span_of("a", [1] * 60), span_of("b", [2])])
    runner.ask([span_of("a", [1] * 61), span_of("b", [2, 3]), span_of("c", [4] * 40)])
    assert runner.passes.count == len(calls) > 0


@given(first=st.lists(tokens, min_size=1, max_size=12), second=st.lists(tokens, min_size=1))
def test_cached_counts_the_common_prefix(first: list[int], second: list[int]) -> None:
    runner = runner_of(cached_model("llama"))
    assert ask(runner, [span_of("a", first)])[0].cached == 0
    common = 0
    while common < min(len(first), len(second)) and first[common] == second[common]:
        common += 1
    assert ask(runner, [span_of("a", second)])[0].cached == min(common, len(second) - 1)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_rows_and_room_grow_without_losing_what_is_kept(family: str) -> None:
    model = tiny_model(family, context_length=700)
    runner = start_runner(model, VOCAB, 700)
    held = [span_of(i, [i + 1, i + 2, i + 3]) for i in range(3)]
    ask(runner, held)
    ask(runner, [span_of(i, [i % VOCAB] * 5) for i in range(3, 30)])
    long = [i % VOCAB for i in range(600)]
    answers = ask(
        runner, [span_of("long", long, 2), *(span_of(h.lane, [*h.tokens, 5]) for h in held)]
    )
    torch.testing.assert_close(answers[0].logprobs, uncached(model, long, 2), atol=CLOSE, rtol=0)
    for question, answer in zip(held, answers[1:], strict=True):
        assert answer.cached == 3
        want = uncached(model, [*question.tokens, 5])
        torch.testing.assert_close(answer.logprobs, want, atol=CLOSE, rtol=0)


def test_a_window_as_wide_as_the_context_is_no_window() -> None:
    torch.manual_seed(0)
    model = MistralForCausalLM(MistralConfig(**SMALL, sliding_window=CONTEXT)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_answers(
            model, runner_of(model), [[(0, 0, [1, 2, 3], 2, False), (1, 0, [4], 1, False)]]
        )


def test_padding_columns_of_the_model_are_no_tokens() -> None:
    model = cached_model("llama")
    [answer] = ask(start_runner(model, 20, CONTEXT), [span_of("a", [1, 2, 3])])
    assert answer.logprobs.shape == (1, 20)
    assert float(answer.logprobs.exp().sum()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
@pytest.mark.parametrize("place", [0, 3, VOCAB - 1])
@pytest.mark.parametrize("holes", [(), (0, VOCAB - 1)])
def test_one_nan_is_found_wherever_it_is(wrong: float, place: int, holes: tuple[int, ...]) -> None:
    passes = ModelPasses(tiny_model("llama"), VOCAB, holes=holes)
    logits = torch.randn(2, 2, VOCAB)
    logits[1, 0, place] = wrong
    logprobs = passes.logprobs(logits)
    assert logprobs.shape == (4, VOCAB)
    assert has_nan(logprobs) == (place not in holes)
    assert logprobs.isnan().all(dim=-1).tolist() == [False, False, place not in holes, False]
