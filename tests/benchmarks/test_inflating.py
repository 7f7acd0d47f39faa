"""An inflated model is larger, costs more, and returns the same logits as the small one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from benchmarks.inflating import inflate
from marith.errors import ModelError
from marith.scoring.passes.passes import cache_argument
from marith.testing import tiny_model

FAMILIES = ("llama", "qwen2", "qwen3")


def ids(length: int, vocab: int = 28, rows: int = 2) -> Tensor:
    draw = torch.Generator().manual_seed(length)
    return torch.randint(0, vocab, (rows, length), generator=draw)


@torch.inference_mode()
def logprobs(model: Any, tokens: Tensor) -> Tensor:
    return torch.log_softmax(model(tokens, use_cache=False).logits.float(), -1)


@torch.inference_mode()
def cached_logprobs(model: Any, tokens: Tensor) -> Tensor:
    """The same, one token at a time with a KV cache."""
    cache = DynamicCache(config=model.config)
    given = {cache_argument(model): cache}
    logits = [model(token, **given).logits for token in tokens.split(1, dim=1)]
    return torch.log_softmax(torch.cat(logits, 1).float(), -1)


def assert_same(small: Any, large: Any, tokens: Tensor) -> None:
    """To 1e-5 of the scale of the log-probabilities."""
    expected = logprobs(small, tokens)
    tolerance = 1e-5 * float(expected.abs().max())
    torch.testing.assert_close(logprobs(large, tokens), expected, rtol=0, atol=tolerance)
    torch.testing.assert_close(cached_logprobs(large, tokens), expected, rtol=0, atol=tolerance)


@given(
    family=st.sampled_from(FAMILIES),
    pairs=st.integers(0, 3),
    layers=st.integers(2, 4),
    more=st.integers(0, 40),
    seed=st.integers(0, 5),
)
def test_no_size_changes_the_logits_of_a_model(
    family: str, pairs: int, layers: int, more: int, seed: int
) -> None:
    small = tiny_model(family, seed=seed)
    large = inflate(small, 32 + 16 * pairs, layers, 48 + more, seed=seed)
    assert large.config.num_hidden_layers == layers
    assert large.config.intermediate_size == 48 + more
    assert large.get_output_embeddings().weight.shape == (28, 32 + 16 * pairs)
    assert_same(small, large, ids(9))


def biased_llama() -> Any:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        vocab_size=28, attention_bias=True, mlp_bias=True,
    )).eval()  # fmt: skip


@pytest.mark.parametrize("family", ["biased llama", *FAMILIES])
def test_biases_and_an_epsilon_that_matters_are_carried_over(family: str) -> None:
    small = biased_llama() if family == "biased llama" else tiny_model(family)
    small.config.rms_norm_eps = 0.1
    for module in small.modules():
        if hasattr(module, "variance_epsilon"):
            module.variance_epsilon = 0.1
    for name, parameter in small.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.3)
        elif "norm" in name:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    assert_same(small, inflate(small, hidden=64, layers=3), ids(9))


def test_new_weights_are_random_and_the_same_for_the_same_seed() -> None:
    small = tiny_model()
    before = {name: weight.clone() for name, weight in small.state_dict().items()}
    one, same, other = (inflate(small, 64, 3, 96, seed=seed) for seed in (1, 1, 2))
    added = one.model.layers[0].mlp.gate_proj.weight[48:]
    assert added.std() > 0.01
    assert (added != 0).all()
    assert torch.equal(added, same.model.layers[0].mlp.gate_proj.weight[48:])
    assert not torch.equal(added, other.model.layers[0].mlp.gate_proj.weight[48:])
    assert all(torch.equal(weight, before[name]) for name, weight in small.state_dict().items())


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"hidden": 24}, "hidden is a whole number of at least the model's 32, not 24"),
        ({"hidden": 64.0}, "not 64.0"),
        ({"hidden": 36}, "a multiple of the head dimension 8, not 36"),
        ({"hidden": 40}, "a multiple of 16 for groups of 2 heads of 8, not 40"),
    ],
)
def test_an_impossible_size_is_named(sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        inflate(tiny_model(), **sizes)


def test_a_family_that_cannot_be_inflated_is_named() -> None:
    with pytest.raises(ModelError, match="GPT2LMHeadModel cannot be inflated"):
        inflate(tiny_model("gpt2"), hidden=64)
