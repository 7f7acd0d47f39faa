"""A pass has the frequencies of the length that it is told, whatever was read before."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.architectures import build
from support.asking import VOCAB, text
from support.rotary_models import KINDS, LIMIT, rotary_model
from torch import Tensor

from marith.scoring.checkpoints.shared_weights import shared_copy
from marith.scoring.language_model.model_passes import ModelPasses
from marith.scoring.rotary.forced_length import ForcedLength


def logits(model: Any, tokens: list[int]) -> Tensor:
    with torch.inference_mode():
        return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]


@pytest.mark.parametrize("kind", KINDS)
def test_the_beginning_of_a_text_is_read_as_part_of_the_whole(kind: str) -> None:
    tokens = text(LIMIT + 12)
    whole = logits(rotary_model(kind), tokens)
    short = logits(rotary_model(kind), tokens[:9])
    model = rotary_model(kind)
    length = ForcedLength(model)
    for told in (model, shared_copy(model)):
        with length.at(len(tokens)):
            torch.testing.assert_close(logits(told, tokens[:9]), whole[:9], atol=1e-5, rtol=0)
        with length.at(0):
            torch.testing.assert_close(logits(told, tokens[:9]), short, atol=1e-5, rtol=0)
        assert float((whole[:9] - short).abs().max()) > 1e-2


def test_the_longest_text_that_was_met_is_forgotten() -> None:
    tokens, model = text(LIMIT + 20), rotary_model("llama dynamic")
    want = logits(rotary_model("llama dynamic"), tokens[: LIMIT + 3])
    length = ForcedLength(model)
    logits(model, tokens)
    assert float((logits(model, tokens[: LIMIT + 3]) - want).abs().max()) > 1e-2
    with length.at(0):
        assert torch.equal(logits(model, tokens[: LIMIT + 3]), want)


def test_a_model_that_scales_its_rotations_by_itself_is_told_too() -> None:
    model = build("phimoe longrope")
    tokens, length = [3 + i * i % 200 for i in range(90)], ForcedLength(model)
    whole = logits(model, tokens)
    with length.at(90):
        torch.testing.assert_close(logits(model, tokens[:30]), whole[:30], atol=1e-4, rtol=0)
    assert float((logits(model, tokens[:30]) - whole[:30]).abs().max()) > 1e-2


def test_outside_the_model_is_as_it_was() -> None:
    model = rotary_model("phi3 longrope")
    before, length = logits(model, text(9)), ForcedLength(model)
    assert torch.equal(logits(model, text(9)), before)
    with pytest.raises(KeyError), length.at(LIMIT + 1):
        raise KeyError
    assert torch.equal(logits(model, text(9)), before)
    assert before.shape == (9, VOCAB)


@pytest.mark.parametrize("kind", KINDS)
def test_passes_with_lengths_leave_no_hooks_on_the_model(kind: str) -> None:
    model = rotary_model(kind)
    for _ in range(2):
        ModelPasses(model, VOCAB)
    modules = [*model.modules()]
    assert not any(each._forward_pre_hooks or each._forward_hooks for each in modules)
