"""Inflate a model: compute the function of a small model at the cost of a large one."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM

from marith.errors import ModelError

_FAMILIES = (LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM)
# Modules whose output is added to the residual stream, or is the logits.
_WRITERS = {"embed_tokens", "lm_head", "o_proj", "down_proj"}
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
    """Return a new model with these sizes and the logits of `model`. None keeps a size.

    The family is Llama, Qwen2 or Qwen3. The dimension of a head and the number of heads that share
    keys stay, so a wider model has more heads. The added parts compute with random weights, equal
    for equal seeds, and output zeros. So the model costs as much as any other model of these sizes,
    with its wider output projection and its larger cache. The logits are exact up to the rounding
    of the model's dtype. Raises ModelError for impossible sizes, before anything is built.
    """
    if type(model) not in _FAMILIES:
        names = ", ".join(family.__name__ for family in _FAMILIES)
        raise ModelError(f"{type(model).__name__} cannot be inflated; {names} can")
    config = _wider(model.config, hidden, layers, intermediate)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        inflated = type(model)(config)
    inflated = inflated.to(model.device, model.dtype).train(model.training)
    inflated.generation_config = copy.deepcopy(model.generation_config)
    scale = math.sqrt(model.config.hidden_size / config.hidden_size)
    weights = model.state_dict()
    for name, weight in inflated.state_dict().items():
        _fill(weight, weights.get(name), name.split(".")[-2], scale, _has_head_norms(weights))
    return inflated


def _fill(
    weight: Tensor, small: Tensor | None, module: str, scale: float, head_norms: bool
) -> None:
    """Copy the small model's weight into the corner of the larger; `_WRITERS` are zero elsewhere.

    A norm over H' channels, all but H of them zero, computes √(H/H') of their root mean
    square. So its weight is scaled by √(H/H'), and its epsilon, which the whole model shares, by
    H/H'. Norms within heads keep their channels: this epsilon is right for them when their input
    is scaled by √(H/H') too.
    """
    if module in _WRITERS or (module in _STREAM_NORMS and small is not None):
        weight.zero_()
    if small is None:
        return
    scaled = module in _STREAM_NORMS or (head_norms and module in _NORMED_BY_HEAD)
    weight[tuple(slice(size) for size in small.shape)] = small * (scale if scaled else 1.0)


def _has_head_norms(weights: dict[str, Tensor]) -> bool:
    return any(name.split(".")[-2] in _HEAD_NORMS for name in weights)


def _wider(config: Any, hidden: int | None, layers: int | None, intermediate: int | None) -> Any:
    """Return the configuration of the larger model."""
    hidden = _size("hidden", hidden, config.hidden_size)
    layers = _size("layers", layers, config.num_hidden_layers)
    intermediate = _size("intermediate", intermediate, config.intermediate_size)
    heads = config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    if hidden % head_dim:
        raise ModelError(f"hidden is a multiple of the head dimension {head_dim}, not {hidden!r}")
    group = heads // config.num_key_value_heads
    wider = copy.deepcopy(config)
    wider.num_attention_heads = max(heads, hidden // head_dim)
    if wider.num_attention_heads % group:
        raise ModelError(
            f"hidden is a multiple of {group * head_dim} for groups of {group} heads of {head_dim},"
            f" not {hidden!r}"
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


def _size(name: str, value: int | None, least: int) -> int:
    if value is None:
        return least
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ModelError(f"{name} is a whole number of at least the model's {least}, not {value!r}")
    return value
