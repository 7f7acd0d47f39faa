"""Norms, attention and MLPs of well-known models, computed with fewer operations.

A decoder layer of transformers takes about 165 operations for one token, and only seven of them
read weights. For a small model the other operations take up to half of a step on a CPU. The classes
are listed by name, because the code of each of them was read to make sure that it can be replaced;
tests compare each of them with transformers' own code.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import rotate_half

from marith.scoring.weights.layout.packing import is_plain, plain_linear

_LLAMAS = "Granite", "Llama", "Ministral", "Mistral", "Mixtral", "Qwen2", "Qwen3", "Qwen3Moe"
_GEMMAS = "Gemma2", "Gemma3"
_ATTENTIONS = {f"{name}Attention" for name in (*_LLAMAS, "Gemma3")}
_MLPS = {f"{name}MLP" for name in (*_LLAMAS, *_GEMMAS, "Olmo2", "SmolLM3")}
_NORMS = {f"{name}RMSNorm" for name in (*_LLAMAS, "Phi3", "SmolLM3")}
# These norms store the weight minus 1.
_NORMS_AROUND_ONE = {f"{name}RMSNorm" for name in _GEMMAS}


class JointLinear(nn.Module):
    """The weights of several linear layers, one after another, in one layer.

    Keeps state from the call of its first part to the call of its last part: their input, and the
    product.
    """

    def __init__(self, linears: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.parts = len(linears)
        self.linear = _stacked(linears)
        self._known: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of all parts: [..., in_features] → [..., all out_features]."""
        out: Tensor = self.linear(x)
        return out

    def kept(self, x: Tensor, last: bool) -> Tensor:
        """Return the product for `x`. Keep it for the other parts until the `last` part asks."""
        # The attribute is read only once, because another thread may run the same modules.
        known = self._known
        out = known[1] if known is not None and known[0] is x else self(x)
        self._known = None if last else (x, out)
        return out


class LinearPart(nn.Linear):
    """One of several linear layers that one product computes.

    To other code it is the `nn.Linear` that it replaces, so adapters can wrap it like any linear
    layer. Hooks that are registered on it later are not called. Its weights are a view of the joint
    weights, until these are packed in another layout.
    """

    def __init__(self, joint: JointLinear, linear: nn.Linear, start: int, last: bool) -> None:
        # nn.Linear.__init__ would draw random weights.
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.joint = joint
        self._columns = slice(start, start + linear.out_features)
        self._last = last

    # An `nn.Linear` has parameters of these names; here they are views of the joint parameters.
    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The weight [out_features, in_features].

        Once the joint weight is packed, this is the whole joint weight in oneDNN's layout.
        """
        whole = self.joint.linear.weight
        return whole[self._columns] if whole.layout is torch.strided else whole

    @property
    def bias(self) -> Tensor | None:  # type: ignore[override]
        """The bias [out_features], or None."""
        whole = self.joint.linear.bias
        return None if whole is None else whole[self._columns]

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (the name that nn.Linear gives it)
        """Return this part's outputs: [..., in_features] → [..., out_features]."""
        return self.joint.kept(input, self._last)[..., self._columns]


def join(module: nn.Module, names: Sequence[str]) -> None:
    """Compute several linear layers of a module, those named `names`, by one product.

    The layers must read the same input. Layers that are quantised, hooked or different from each
    other stay as they are.
    """
    linears: list[Any] = [getattr(module, name) for name in names]
    if not all(type(one) is nn.Linear and is_plain(one) for one in linears):
        return
    if len({(one.weight.dtype, one.weight.device, one.bias is None) for one in linears}) > 1:
        return
    joint, start = JointLinear(linears), 0
    for name, linear in zip(names, linears, strict=True):
        setattr(module, name, LinearPart(joint, linear, start, last=linear is linears[-1]))
        start += linear.out_features


def together(x: Tensor, layers: Sequence[nn.Module]) -> Tensor:
    """Return the outputs of layers one after another, by one product if the layers are joined."""
    if all(type(one) is LinearPart for one in layers):
        joint: Any = layers[0]._modules["joint"]
        out: Tensor = joint(x)
        return out
    return torch.cat([one(x) for one in layers], dim=-1)


def _stacked(linears: Sequence[nn.Linear]) -> nn.Linear:
    """Return one layer with the outputs of several layers, one after another."""
    first = linears[0]
    bias = None if first.bias is None else _all_rows([one.bias for one in linears])
    return plain_linear(_all_rows([one.weight for one in linears]), bias)


def _all_rows(parameters: Sequence[Tensor]) -> nn.Parameter:
    """Return the rows of all parameters, one after another."""
    rows = torch.cat([one.detach() for one in parameters])
    return nn.Parameter(rows, requires_grad=False)


class LeanNorm(nn.Module):
    """An RMSNorm: x / sqrt(mean(x²) + eps), times a weight [dim] (Zhang and Sennrich, 2019, eq. 4).

    In float32 on a CPU, √dim · weight · x / √(Σx² + dim · eps) is computed, in four operations.
    """

    _lean_weight: Tensor
    _least: Tensor | None

    def prepare(self, weight: Tensor, eps: float) -> None:
        """Keep the constants of the formula. The normalised input is multiplied by `weight`."""
        self._eps, self._least, self._lean_weight = eps, None, weight
        if weight.is_cpu and weight.dtype == torch.float32:
            self._lean_weight = weight * len(weight) ** 0.5
            self._least = weight.new_tensor((len(weight) * eps) ** 0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Return the norm: [..., dim] → [..., dim]."""
        if self._least is None or x.dtype != torch.float32:
            return functional.rms_norm(x, self._lean_weight.shape, self._lean_weight, self._eps)
        length = torch.linalg.vector_norm(x, 2, -1, True)
        out: Tensor = x / torch.hypot(length, self._least) * self._lean_weight
        return out


class LeanAttention(nn.Module):
    """Attention with one product for queries, keys and values, and one rotation."""

    READ = "q_proj", "k_proj", "v_proj"

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Any = None,
        past_key_values: Any = None,
        cache: Any = None,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the output [texts, width, hidden], and the attention weights if there are any.

        `hidden_states` is [texts, width, hidden]. The attention function returns the weights.
        """
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
        # transformers before 5.24 passes the cache by its old name.
        if cache is None:
            cache = past_key_values
        if cache is not None:
            key, value = cache.update(key, value, own.layer_idx)
        name = own.config._attn_implementation
        attend: Any = ALL_ATTENTION_FUNCTIONS.get_interface(name, sdpa_attention_forward)
        options |= {"scaling": own.scaling, "sliding_window": getattr(own, "sliding_window", None)}
        read, shares = attend(own, query, key, value, attention_mask, dropout=0.0, **options)
        return own.o_proj(read.flatten(2)), shares


class LeanMLP(nn.Module):
    """A gated MLP with one product for the gate and for the values that it scales."""

    READ = "gate_proj", "up_proj"

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the MLP: [..., hidden] → [..., hidden]."""
        own: Any = self
        gate, up = together(x, (own.gate_proj, own.up_proj)).chunk(2, dim=-1)
        out: Tensor = own.down_proj(own.act_fn(gate) * up)
        return out


def make_lean(model: nn.Module) -> None:
    """Replace, in place, the code of listed module classes by the code above.

    Each module keeps its parts and their names, and stays an instance of its own class. While
    weights are joined, the peak of memory is the model plus a second copy of the layers of one
    module.
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
    # The sum of 1 and a weight has more digits than a 16-bit type holds.
    if around_one and weight.dtype != torch.float32:
        return
    eps = module.eps if around_one else module.variance_epsilon
    _become(module, LeanNorm)
    module.prepare(1 + weight if around_one else weight, eps)


def _become(module: Any, lean: Any) -> None:
    kind: Any = type(module)
    module.__class__ = _lean_class(lean, kind)


def _takes_functions(module: Any) -> bool:
    return module.config._attn_implementation in ALL_ATTENTION_FUNCTIONS


def _transformers_name(module: nn.Module) -> str:
    """Return the name of a module's class if it is a class of transformers, or ""."""
    kind = type(module)
    return kind.__name__ if kind.__module__.startswith("transformers.models.") else ""


@cache
def _lean_class(lean: Any, kind: Any) -> Any:
    """Return a class with the code of `lean`. Its instances are instances of `kind` too."""
    return type(f"Lean{kind.__name__}", (lean, kind), {})
