"""Norms, attention and MLPs of well-known models, computed with fewer operations.

A decoder layer of transformers takes about 165 operations for one token, of which seven read the
weights. For a small model the others take up to a half of a step on a CPU. The classes below are
listed by name, since their code was read; tests compare each with transformers' own.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import rotate_half

from marith.scoring.weights.joint_linear import join, together

_LLAMAS = "Granite", "Llama", "Ministral", "Mistral", "Mixtral", "Qwen2", "Qwen3", "Qwen3Moe"
_GEMMAS = "Gemma2", "Gemma3"


class LeanNorm(nn.Module):
    """An RMSNorm: x / sqrt(mean(x²) + eps), times a weight [dim] (Zhang and Sennrich, 2019, eq. 4).

    In float32 on a CPU it is √dim · weight · x / √(Σx² + dim · eps), which takes four operations.
    """

    _lean_weight: Tensor
    _least: Tensor | None

    def prepare(self, weight: Tensor, eps: float) -> None:
        """Keep the constants of the formula, for a `weight` of which the norm is a multiple."""
        self._eps, self._least, self._lean_weight = eps, None, weight
        if weight.is_cpu and weight.dtype == torch.float32:
            self._lean_weight = weight * len(weight) ** 0.5
            self._least = weight.new_tensor((len(weight) * eps) ** 0.5)

    def forward(self, x: Tensor) -> Tensor:
        """[..., dim] → [..., dim]."""
        if self._least is None or x.dtype != torch.float32:
            return functional.rms_norm(x, self._lean_weight.shape, self._lean_weight, self._eps)
        length = torch.linalg.vector_norm(x, 2, -1, True)
        out: Tensor = x / torch.hypot(length, self._least) * self._lean_weight
        return out


class LeanAttention(nn.Module):
    """Attention with one product for all that is read, which rotates queries and keys together."""

    READ = "q_proj", "k_proj", "v_proj"

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Any = None,
        past_key_values: Any = None,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """[texts, width, hidden] → [texts, width, hidden], and the attention function's shares."""
        own: Any = self
        heads = own.config.num_attention_heads
        rotated = heads + heads // own.num_key_value_groups
        out = together(hidden_states, (own.q_proj, own.k_proj, own.v_proj))
        out = out.view(*hidden_states.shape[:-1], -1, own.head_dim)
        both, value = out[:, :, :rotated], out[:, :, rotated:].transpose(1, 2)
        if (norm := getattr(own, "q_norm", None)) is not None:
            both = torch.cat((norm(both[:, :, :heads]), own.k_norm(both[:, :, heads:])), dim=2)
        cos, sin = (one.unsqueeze(2) for one in position_embeddings)
        both = torch.addcmul(both * cos, rotate_half(both), sin).transpose(1, 2)
        query, key = both[:, :heads], both[:, heads:]
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, own.layer_idx)
        name = own.config._attn_implementation
        attend: Any = ALL_ATTENTION_FUNCTIONS.get_interface(name, sdpa_attention_forward)
        options |= {"scaling": own.scaling, "sliding_window": getattr(own, "sliding_window", None)}
        read, shares = attend(own, query, key, value, attention_mask, dropout=0.0, **options)
        return own.o_proj(read.flatten(2)), shares


class LeanMLP(nn.Module):
    """A gated MLP with one product for the gate and for what it lets through."""

    READ = "gate_proj", "up_proj"

    def forward(self, x: Tensor) -> Tensor:
        """[..., hidden] → [..., hidden]."""
        own: Any = self
        gate, up = together(x, (own.gate_proj, own.up_proj)).chunk(2, dim=-1)
        out: Tensor = own.down_proj(own.act_fn(gate) * up)
        return out


_ATTENTIONS = {f"{name}Attention" for name in (*_LLAMAS, "Gemma3")}
_MLPS = {f"{name}MLP" for name in (*_LLAMAS, *_GEMMAS, "Olmo2", "SmolLM3")}
_NORMS = {f"{name}RMSNorm" for name in (*_LLAMAS, "Phi3", "SmolLM3")}
_NORMS_AROUND_ONE = {f"{name}RMSNorm" for name in _GEMMAS}  # the weight is kept as weight - 1


def make_lean(model: nn.Module) -> None:
    """Give the modules of listed classes, in place, the code above.

    Each module keeps its parts and their names, and stays an instance of its own class. While
    weights are joined, memory peaks at the model and the layers of one module.
    """
    for module in [*model.modules()]:
        name = _transformers_name(module)
        if name in _ATTENTIONS and _takes_functions(module):
            join(module, LeanAttention.READ)
            _become(module, LeanAttention)
        elif name in _MLPS:
            join(module, LeanMLP.READ)
            _become(module, LeanMLP)
        elif name in _NORMS | _NORMS_AROUND_ONE:
            _make_norm_lean(module, around_one=name in _NORMS_AROUND_ONE)


def _make_norm_lean(module: Any, around_one: bool) -> None:
    weight = module.weight.detach()
    if around_one and weight.dtype != torch.float32:
        return  # 1 + a weight has more digits than a short type holds
    eps = module.eps if around_one else module.variance_epsilon
    _become(module, LeanNorm)
    module.prepare(1 + weight if around_one else weight, eps)


def _become(module: Any, lean: Any) -> None:
    kind: Any = type(module)
    module.__class__ = _lean_class(lean, kind)


def _takes_functions(module: Any) -> bool:
    return module.config._attn_implementation in ALL_ATTENTION_FUNCTIONS


def _transformers_name(module: nn.Module) -> str:
    """Return the name of a module's class if that is exactly a class of transformers, or ""."""
    kind = type(module)
    return kind.__name__ if kind.__module__.startswith("transformers.models.") else ""


@cache
def _lean_class(lean: Any, kind: Any) -> Any:
    """Return a class with the code of `lean`, whose instances are instances of `kind` too."""
    return type(f"Lean{kind.__name__}", (lean, kind), {})
