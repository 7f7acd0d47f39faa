"""A model that is loaded already stays as it is, whatever its passes write."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from support.architectures import build, uncached, words
from support.architectures.judge import load
from torch import Tensor

import marith
from marith.scoring.weights.shared_weights import independent

TEXT = list(range(3, 120))


def state(model: Any) -> dict[str, Tensor]:
    """Every parameter and buffer, copied."""
    held = [*model.named_parameters(), *model.named_buffers()]
    return {name: tensor.detach().clone() for name, tensor in held}


@pytest.mark.parametrize("name", ["rwkv", "phi3 longrope", "llama rope dynamic", "gpt2", "mamba"])
@pytest.mark.parametrize("training", [True, False])
def test_parameters_buffers_and_outputs_are_the_same_bits_after_use(
    name: str, training: bool
) -> None:
    model, other = build(name), build(name)
    model.train(training)
    before = state(model)
    engine, _ = load(model)
    with engine:
        for length in (3, 90):
            prompt = words(length, 7)
            row, tokens = engine.next_logprobs(prompt), engine.encode(prompt)
            want = uncached(copy.deepcopy(other), tokens)[-1]
            torch.testing.assert_close(row, want, atol=1e-5, rtol=0)
            engine.generate(prompt, "2*x - M", {"x": words(60, 3)}, stop=marith.Stop(3))
    after = state(model)
    assert after.keys() == before.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert model.training == training
    assert torch.equal(uncached(model.eval(), TEXT), uncached(other, TEXT))


def test_weights_are_shared_unless_a_pass_writes_to_them() -> None:
    for name, shared in (("gpt2", True), ("rwkv", False), ("phi3 longrope", True)):
        model = build(name)
        own = independent(model)
        pairs = zip(own.parameters(), model.parameters(), strict=True)
        assert {a is b for a, b in pairs} == {shared}
        assert not {id(buffer) for buffer in computed(own)} & {id(b) for b in computed(model)}


def computed(model: Any) -> list[Tensor]:
    """The buffers that no checkpoint holds."""
    kept = model.state_dict()
    return [buffer for name, buffer in model.named_buffers() if name not in kept]
