"""Layers that see a window or a chunk are cached, and answered as without a cache."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.architectures import build
from support.runner_questions import CONTEXT
from support.runner_rounds import Round, require_answers, rounds
from transformers.masking_utils import (
    create_causal_mask,
    create_chunked_causal_mask,
    create_sliding_window_causal_mask,
)

from marith.scoring.choose_runner import start_runner
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.layer_masks import LayerMasks
from marith.scoring.passes.passes import cache_argument

NAMES = ("mistral", "gemma3_text", "gpt_oss", "llama4_text", "qwen2 window on", "ministral")
EACH = max(4, settings().max_examples // len(NAMES))
MADE_BY = {
    "full_attention": create_causal_mask,
    "sliding_attention": create_sliding_window_causal_mask,
    "chunked_attention": create_chunked_causal_mask,
}

model_of = cache(build)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=EACH)
@given(script=rounds(longest_tail=40), capture=st.booleans())
def test_any_sequence_of_questions_is_answered_as_without_a_cache(
    name: str, script: list[Round], capture: bool
) -> None:
    model = model_of(name)
    runner = start_runner(model, model.config.vocab_size, CONTEXT, capture=capture)
    assert isinstance(runner, CachedRunner)
    assert bool(runner.captured) == capture
    require_answers(model, runner, script, close=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_the_masks_are_those_of_the_models_own_code(name: str) -> None:
    model, length = model_of(name), 40
    masks = LayerMasks.of_model(model).of(torch.arange(length)[None], length)
    own = model.config.get_text_config()
    embedded = torch.zeros(1, length, 4)
    given = {"config": own, "inputs_embeds": embedded, "attention_mask": None}
    given |= {cache_argument(model): None, "position_ids": torch.arange(length)[None]}
    for kind, mask in masks.items() if isinstance(masks, dict) else [("sliding_attention", masks)]:
        if kind not in getattr(own, "layer_types", [kind]):
            continue
        want = MADE_BY[kind](**given)
        got = mask if mask.dtype == torch.bool else mask == 0
        if want is not None:
            assert torch.equal(got, want if want.dtype == torch.bool else want == 0), kind
