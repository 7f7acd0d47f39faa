"""Texts of which nothing is read yet share a pass without a mask, whatever their lengths."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.architectures import build
from support.runner_questions import CLOSE, CONTEXT, VOCAB, ask, span_of, text, uncached
from torch.nn import functional

from marith.scoring.choose_runner import start_runner
from marith.scoring.passes import lanes as lanes_module
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.chunked_prefill import PrefillLimits
from marith.scoring.passes.lanes import Lane, rectangle
from marith.tensor_rows import gather
from marith.testing import FAMILIES, tiny_model

MANY = 8192
cached_model = cache(tiny_model)


def rectangle_runner(model: Any, padding: int = MANY) -> CachedRunner:
    """Return a runner over a rectangle, for which padding is cheap, as on an accelerator."""
    vocab = model.config.vocab_size
    runner = start_runner(model, vocab, CONTEXT, capture=True)
    assert isinstance(runner, CachedRunner)
    runner.prefill = PrefillLimits(MANY, MANY, padding)
    return runner


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=settings().max_examples // 2)
@given(
    asked=st.lists(st.tuples(st.integers(17, 90), st.integers(1, 30)), min_size=1, max_size=6),
    spare=st.sampled_from([0, 10, MANY]),
)
def test_texts_of_any_lengths_are_answered_in_one_pass_as_without_a_cache(
    family: str, asked: list[tuple[int, int]], spare: int
) -> None:
    model = cached_model(family)
    runner = rectangle_runner(model)
    first = [
        span_of(i, [i, *text(length - 1)], min(count, length))
        for i, (length, count) in enumerate(asked)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes_module, "SPARE_LOGITS", spare)
        answers = runner.ask(first)
        assert runner.passes.count == 1
    # The second questions read the keys of the first ones, padding not among them.
    second = [span_of(one.lane, [*one.tokens, 3, 5], 2) for one in first]
    for question, answer in [
        *zip(first, answers, strict=True),
        *zip(second, ask(runner, second), strict=True),
    ]:
        assert answer is not None
        want = uncached(model, question.tokens, question.count)
        torch.testing.assert_close(answer.logprobs, want, atol=CLOSE, rtol=0)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return a list that gets the options of every call of torch's attention."""
    made: list[dict[str, Any]] = []
    plain = functional.scaled_dot_product_attention

    def watched(query: Any, key: Any, value: Any, **options: Any) -> Any:
        made.append({**options, "queries": query.shape, "keys": key.shape})
        return plain(query, key, value, **options)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", watched)
    return made


def test_attention_gets_no_mask_and_keys_that_are_not_repeated(calls: list[dict[str, Any]]) -> None:
    model = cached_model("llama")
    heads, of_keys = model.config.num_attention_heads, model.config.num_key_value_heads
    assert heads > of_keys
    runner = rectangle_runner(model)
    calls.clear()
    ask(runner, [span_of(i, [i, *text(20 + 7 * i)]) for i in range(3)])
    assert len(calls) == model.config.num_hidden_layers
    for call in calls:
        assert call["attn_mask"] is None
        assert call["is_causal"] is True
        assert call["enable_gqa"] is True
        assert call["queries"][:3] == (3, heads, 35)
        assert call["keys"][:3] == (3, of_keys, 35)


def test_texts_that_go_on_keep_the_mask(calls: list[dict[str, Any]]) -> None:
    runner = rectangle_runner(cached_model("llama"))
    ask(runner, [span_of(i, [i, *text(20 + i)]) for i in range(3)])
    calls.clear()
    ask(runner, [span_of(i, [i, *text(45 + i)]) for i in range(3)])
    assert calls
    assert all(call["attn_mask"] is not None and not call["is_causal"] for call in calls)


@pytest.mark.parametrize("length", [20, 60])
@pytest.mark.parametrize("name", ["mistral", "gemma3_text", "llama4_text"])
def test_a_layer_keeps_its_mask_if_its_window_is_shorter_than_the_text(
    name: str, length: int, calls: list[dict[str, Any]]
) -> None:
    model = build(name)
    runner = rectangle_runner(model)
    widths = runner.lanes.masks.by_layer(model)
    calls.clear()
    [answer] = ask(runner, [span_of("a", text(length))])
    masked = [call["attn_mask"] is not None for call in calls]
    assert masked == [width is not None and width <= length for width in widths]
    want = uncached(model, text(length))
    torch.testing.assert_close(answer.logprobs, want, atol=CLOSE, rtol=0)


def test_attention_that_adds_its_mask_keeps_it() -> None:
    model = tiny_model()
    model.set_attn_implementation("eager")
    runner, masks = rectangle_runner(model), []
    model.register_forward_pre_hook(
        lambda _, args, given: masks.append(given["attention_mask"]), with_kwargs=True
    )
    ask(runner, [span_of(i, [i, *text(20 + i)]) for i in range(3)])
    assert [mask.shape for mask in masks] == [(3, 1, 23, 23)]


def test_logits_are_computed_where_a_text_asks_for_them() -> None:
    model = tiny_model()
    runner, shapes = rectangle_runner(model), []
    model.lm_head.register_forward_pre_hook(lambda _, args: shapes.append(args[0].shape[:2]))
    ask(runner, [span_of(i, [i, *text(20 + i % 2)]) for i in range(4)])
    # Two lengths, so two positions of each text.
    assert shapes == [(4, 2)]
    shapes.clear()
    # Forty positions of each text would be too many, so there are two passes.
    runner.forget()
    ask(runner, [span_of(i, [i % VOCAB, i // VOCAB, *text(20 + i)]) for i in range(40)])
    assert shapes == [(32, 32), (8, 8)]


@pytest.mark.parametrize("count", [1, 30])
def test_texts_that_ask_for_too_many_positions_are_aligned_at_their_ends(count: int) -> None:
    new = [[0] * (30 + 7 * i) for i in range(32)]
    one = rectangle([Lane(i) for i in range(32)], new, [None] * 32, count)
    assert one.fresh == (count == 1)
    assert one.ids.shape == (32, 30 + 7 * 31)


def test_inner_layers_are_asked_at_the_end_of_each_text() -> None:
    model = cached_model("llama")
    runner = rectangle_runner(model)
    asked = [span_of(i, [i, *text(20 + 9 * i)], 1 + i, None, (1,)) for i in range(3)]
    for question, answer in zip(asked, ask(runner, asked), strict=True):
        with torch.inference_mode():
            ids = torch.tensor([question.tokens])
            _, [early] = runner.passes.run([None], question.count, [1], input_ids=ids)
        want = runner.passes.logprobs(early)
        torch.testing.assert_close(gather(answer.exits[1]), want, atol=CLOSE, rtol=0)
    assert runner.passes.count == 1


def test_texts_that_are_read_apart_are_those_that_need_much_padding() -> None:
    runner = rectangle_runner(cached_model("llama"), padding=32)
    lengths = [20, 21, 22, 60, 61, 90]
    runner.ask([span_of(i, [i, *text(length - 1)]) for i, length in enumerate(lengths)])
    assert runner.passes.count == 3


def test_a_rectangle_reads_long_texts_whole() -> None:
    model = tiny_model(context_length=400)
    runner = start_runner(model, VOCAB, 400, capture=True, max_batched_tokens=1000)
    shapes: list[tuple[int, int]] = []
    model.register_forward_pre_hook(
        lambda _, args, given: shapes.append(tuple(given["input_ids"].shape)), with_kwargs=True
    )
    ask(runner, [span_of(i, [i, *text(299)]) for i in range(9)])
    assert shapes == [(3, 300)] * 3
