"""The same function at the cost of a larger model: width and depth that contribute nothing."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM

from marith.errors import ModelError

_FAMILIES = (LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM)
_WRITERS = {"embed_tokens", "lm_head", "o_proj", "down_proj"}  # what reaches stream and logits
_STREAM_NORMS = {"input_layernorm", "post_attention_layernorm", "norm"}
_HEAD_NORMS = {"q_norm", "k_norm"}
_NORMED_BY_HEAD = {"q_proj", "k_proj"}


@torch.no_grad()
def inflate(
    model: Any,
    hidden: int | None = None,
    layers: int | None = None,
    intermediate: int | None = None,
    seed: int = 0,
) -> Any:
    """A new model with these sizes and the given one's logits; None keeps a size.

    For Llama, Qwen2 and Qwen3. The dimension of a head and the number of heads that share keys
    stay, so that a wider model has more heads. What is new computes on random weights, the same
    for the same seed, and writes zeros: it costs what it would in any model of these sizes, the
    head's wider product and the cache's longer rows included. Exact up to the rounding of the
    model's dtype. Raises ModelError for sizes that no such model has, before building anything.
    """
    if type(model) not in _FAMILIES:
        known = ", ".join(kind.__name__ for kind in _FAMILIES)
        raise ModelError(f"{type(model).__name__} cannot be inflated; {known} can")
    config = _wider(model.config, hidden, layers, intermediate)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inflated = type(model)(config)
    inflated = inflated.to(model.device, model.dtype).train(model.training)
    inflated.generation_config = copy.deepcopy(model.generation_config)
    shrink = math.sqrt(model.config.hidden_size / config.hidden_size)
    given = model.state_dict()
    for name, weight in inflated.state_dict().items():
        _fill(weight, given.get(name), name.split(".")[-2], shrink, _has_head_norms(given))
    return inflated


def _fill(
    weight: Tensor, given: Tensor | None, module: str, shrink: float, head_norms: bool
) -> None:
    """Write the given weight into the corner of the larger one; writers are silent elsewhere.

    A norm over H' channels, of which H are not zero, sees √(H/H') of their root mean square. Its
    weight takes that back, and its epsilon, which the whole model shares, shrinks by H/H'. Norms
    within heads keep their channels: for them the epsilon is right when what they see shrinks too.
    """
    if module in _WRITERS or (module in _STREAM_NORMS and given is not None):
        weight.zero_()
    if given is None:
        return
    scaled = module in _STREAM_NORMS or (head_norms and module in _NORMED_BY_HEAD)
    weight[tuple(slice(size) for size in given.shape)] = given * (shrink if scaled else 1.0)


def _has_head_norms(given: dict[str, Tensor]) -> bool:
    return any(name.split(".")[-2] in _HEAD_NORMS for name in given)


def _wider(config: Any, hidden: int | None, layers: int | None, intermediate: int | None) -> Any:
    """The configuration of the larger model."""
    hidden = _at_least(config.hidden_size, hidden, "hidden")
    layers = _at_least(config.num_hidden_layers, layers, "layers")
    intermediate = _at_least(config.intermediate_size, intermediate, "intermediate")
    heads = config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    if hidden % head_dim:
        raise ModelError(f"hidden is a multiple of {head_dim}, a head's dimension, not {hidden!r}")
    group = heads // config.num_key_value_heads
    wider = copy.deepcopy(config)
    wider.num_attention_heads = max(heads, hidden // head_dim)
    if wider.num_attention_heads % group:
        raise ModelError(
            f"hidden makes whole groups of {group} heads of {head_dim}, which {hidden!r} does not"
        )
    wider.num_key_value_heads = wider.num_attention_heads // group
    wider.head_dim = head_dim
    wider.rms_norm_eps = config.rms_norm_eps * config.hidden_size / hidden
    wider.hidden_size, wider.intermediate_size = hidden, intermediate
    kinds = getattr(config, "layer_types", None)
    if kinds:
        wider.layer_types = [*kinds, *kinds[-1:] * (layers - len(kinds))]
    wider.num_hidden_layers = layers
    return wider


def _at_least(least: int, wanted: int | None, name: str) -> int:
    if wanted is None:
        return least
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < least:
        raise ModelError(f"{name} is a whole number from the model's {least}, not {wanted!r}")
    return wanted
