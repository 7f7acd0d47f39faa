"""Modules of a decoder layer with fewer and larger operations than transformers' own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from marith.scoring.layouts.joining import join, together


class SignedSines:
    """The sines of a pass with the sign that each half of a rotation has: made once for all layers.

    Keeps those of the last pass.
    """

    def __init__(self) -> None:
        self._known: tuple[Tensor, Tensor] | None = None

    def of(self, sin: Tensor) -> Tensor:
        """[texts, width, dim] → [texts, width, 1, dim], the first half negative."""
        known = self._known  # read once: another thread may run the same modules
        if known is None or known[0] is not sin:
            first, second = sin.chunk(2, dim=-1)
            known = self._known = sin, torch.cat((-first, second), dim=-1).unsqueeze(2)
        return known[1]


class FusedNorm(nn.Module):
    """x / sqrt(mean(x²) + eps), times a weight [dim] (Zhang and Sennrich, 2019, equation 4)."""

    def __init__(self, weight: Tensor, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., dim] → [..., dim]."""
        return functional.rms_norm(x, self.weight.shape, self.weight, self.eps)


class FusedAttention(nn.Module):
    """Attention with rotary positions: one product for all that is read, and one rotation.

    `given` are the arguments that the module it stands for gives its attention function.
    """

    def __init__(self, module: Any, given: Mapping[str, Any], sines: SignedSines) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = join([module.q_proj, module.k_proj, module.v_proj])
        self.o_proj = module.o_proj
        self.q_norm, self.k_norm = getattr(module, "q_norm", None), getattr(module, "k_norm", None)
        self.config, self.layer_idx = module.config, module.layer_idx
        self.head_dim = module.head_dim
        self.num_key_value_groups = module.num_key_value_groups
        self.is_causal = getattr(module, "is_causal", True)
        self._heads = module.q_proj.out_features // module.head_dim
        self._turned = self._heads + module.k_proj.out_features // module.head_dim
        self._given, self._sines = dict(given), sines

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Any = None,
        past_key_values: Any = None,
        **others: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """[texts, width, hidden] → [texts, width, hidden], and the attention function's shares."""
        texts, width, _ = hidden_states.shape
        cos, sin = position_embeddings
        out = together(hidden_states, (self.q_proj, self.k_proj, self.v_proj))
        out = out.view(texts, width, -1, self.head_dim)
        both, value = out[:, :, : self._turned], out[:, :, self._turned :].transpose(1, 2)
        if self.q_norm is not None and self.k_norm is not None:
            parts = self.q_norm(both[:, :, : self._heads]), self.k_norm(both[:, :, self._heads :])
            both = torch.cat(parts, dim=2)
        swapped = both.roll(self.head_dim // 2, -1)
        both = torch.addcmul(both * cos.unsqueeze(2), swapped, self._sines.of(sin)).transpose(1, 2)
        query, key = both[:, : self._heads], both[:, self._heads :]
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        attend = ALL_ATTENTION_FUNCTIONS[self.config._attn_implementation]
        read, shares = attend(self, query, key, value, attention_mask, **{**others, **self._given})
        return self.o_proj(read.reshape(texts, width, -1)), shares


class FusedMLP(nn.Module):
    """A gated MLP with one product for the gate and for what it lets through."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = join([module.gate_proj, module.up_proj])
        self.down_proj, self.act_fn = module.down_proj, module.act_fn

    def forward(self, x: Tensor) -> Tensor:
        """[..., hidden] → [..., hidden]."""
        gate, up = together(x, (self.gate_proj, self.up_proj)).chunk(2, dim=-1)
        out: Tensor = self.down_proj(self.act_fn(gate) * up)
        return out
