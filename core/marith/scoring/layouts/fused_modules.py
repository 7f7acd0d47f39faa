"""Modules of a decoder layer with fewer and larger operations than transformers' own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from marith.scoring.layouts.joining import join, together

# The names of what reads a module's input: one product each, or all of them one already.
READ = ("q_proj", "k_proj", "v_proj"), "qkv_proj"
GATED = ("gate_proj", "up_proj"), "gate_up_proj"
_Attend: TypeAlias = Callable[..., tuple[Tensor, Tensor | None]]


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
        # On a CPU torch has no kernel for it. √dim · x / √(Σx² + dim · eps) takes the fewest steps.
        self._is_short = weight.is_cpu and weight.dtype == torch.float32
        self._scaled = weight * len(weight) ** 0.5
        self._least = weight.new_tensor((len(weight) * eps) ** 0.5)

    def forward(self, x: Tensor) -> Tensor:
        """[..., dim] → [..., dim]."""
        if self._is_short and x.dtype == torch.float32:
            length = torch.linalg.vector_norm(x, 2, -1, True)
            out: Tensor = x / torch.hypot(length, self._least) * self._scaled
            return out
        return functional.rms_norm(x, self.weight.shape, self.weight, self.eps)


class FusedAttention(nn.Module):
    """Attention with rotary positions: one product for all that is read, and one rotation.

    `given` are the arguments that the module it stands for gives its attention function.
    """

    def __init__(self, module: Any, given: Mapping[str, Any], sines: SignedSines) -> None:
        super().__init__()
        self._read = _joined(self, module, *READ)
        self.o_proj = module.o_proj
        self.q_norm, self.k_norm = getattr(module, "q_norm", None), getattr(module, "k_norm", None)
        self.config, self.layer_idx = module.config, module.layer_idx
        self.head_dim = module.head_dim
        self.num_key_value_groups = module.num_key_value_groups
        self.is_causal = getattr(module, "is_causal", True)
        self._heads = module.o_proj.in_features // module.head_dim
        self._turned = self._heads + self._heads // module.num_key_value_groups
        self._given, self._sines = dict(given), sines
        self._attend: _Attend | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the attention function: a copy may have another one."""
        return {**self.__dict__, "_attend": None}

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Any = None,
        past_key_values: Any = None,
        **others: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """[texts, width, hidden] → [texts, width, hidden], and the attention function's shares."""
        attend = self._attend or self._found()
        parts: Any = self._modules  # as attributes they take a search each
        texts, width, _ = hidden_states.shape
        out = together(hidden_states, [parts[name] for name in self._read])
        out = out.view(texts, width, -1, self.head_dim)
        query, key = self._turn(out[:, :, : self._turned], *position_embeddings)
        value = out[:, :, self._turned :].transpose(1, 2)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        read, shares = attend(self, query, key, value, attention_mask, **{**others, **self._given})
        return parts["o_proj"].forward(read.reshape(texts, width, -1)), shares

    def _turn(self, both: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys [texts, heads, width, dim], rotated; `both` is [texts, width, …]."""
        heads, q_norm, k_norm = self._heads, self.q_norm, self.k_norm
        if q_norm is not None and k_norm is not None:
            both = torch.cat((q_norm(both[:, :, :heads]), k_norm(both[:, :, heads:])), dim=2)
        swapped = both.roll(self.head_dim // 2, -1)
        both = torch.addcmul(both * cos.unsqueeze(2), swapped, self._sines.of(sin)).transpose(1, 2)
        return both[:, :heads], both[:, heads:]

    def _found(self) -> _Attend:
        """The attention function that the configuration names."""
        found: _Attend = ALL_ATTENTION_FUNCTIONS[self.config._attn_implementation]
        self._attend = found
        return found


class FusedMLP(nn.Module):
    """A gated MLP with one product for the gate and for what it lets through."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self._gated = _joined(self, module, *GATED)
        self.down_proj = module.down_proj
        self.act_fn = getattr(module, "act_fn", None) or module.activation_fn

    def forward(self, x: Tensor) -> Tensor:
        """[..., hidden] → [..., hidden]."""
        parts: Any = self._modules
        gate, up = together(x, [parts[name] for name in self._gated]).chunk(2, dim=-1)
        out: Tensor = parts["down_proj"].forward(self.act_fn(gate) * up)
        return out


def _joined(fused: nn.Module, module: nn.Module, names: Sequence[str], one: str) -> Sequence[str]:
    """Give a fused module these layers, as one product. Returns their names."""
    if one in module._modules:
        fused.register_module(one, module._modules[one])
        return (one,)
    layers: list[Any] = [getattr(module, name) for name in names]
    for name, part in zip(names, join(layers), strict=True):
        fused.register_module(name, part)
    return names
