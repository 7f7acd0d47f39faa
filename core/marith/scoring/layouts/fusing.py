"""Put fused modules in the place of transformers' own, where they compute the same.

Which modules these are follows from their parts. A pass is recorded, and a module is replaced only
where the fused one answers what the pass has given it as its own code did, but for rounding. So no
architecture is named here, and one whose code differs keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from marith.scoring.checkpoints.shared_weights import attending_by
from marith.scoring.layouts.fused_layer import AFTER, AROUND, BEFORE, FusedLayer, fused_layer
from marith.scoring.layouts.fused_modules import (
    GATED,
    READ,
    FusedAttention,
    FusedMLP,
    FusedNorm,
    SignedSines,
)
from marith.scoring.layouts.packing import is_changed, is_plain
from marith.scoring.layouts.stand_ins import hollow, in_float32, narrow

_RECORDED = "marith_recorded"
_GIVEN = "_marith_given"
_ATTENTION = [(*names, "o_proj") for names in (READ[0], READ[1:])]
_MLP = [(*names, "down_proj") for names in (GATED[0], GATED[1:])]
_FAULTS = AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What a module was given, and what it gave its attention function beyond that."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    given: dict[str, Any]

    def answer(self, module: nn.Module) -> Any:
        """Of a module in float32."""
        args, kwargs = tree_map_only(Tensor, _wide, (self.args, self.kwargs))
        return module(*args, **kwargs)


_Make: TypeAlias = Callable[[Any, _Recorded, SignedSines], nn.Module]


@torch.no_grad()  # and not inference mode: whoever runs the model may be outside of it
def fuse(model: Any) -> int:
    """Fuse, in place, what can be. Returns how many modules are fused.

    Compared is in float32, whatever the model's type: rounding hides no other fault. Memory peaks
    at the model and one module, in float32 beside its own type.
    """
    names = [
        name
        for name, module in model.named_modules()
        if _makers(module) and _kinds(module) <= {model.dtype}
    ]
    if not names or model.config._attn_implementation not in ALL_ATTENTION_FUNCTIONS:
        return 0
    recorded, sines, count = _record(model, names), SignedSines(), 0
    for name, known in sorted(recorded.items(), key=lambda one: -one[0].count(".")):  # parts first
        module = model.get_submodule(name)
        fused = _fused(module, known, sines)
        if fused is not None:
            model.set_submodule(name, fused.train(module.training))
            count += 1
    return count


def _record(model: Any, names: list[str]) -> dict[str, _Recorded]:
    """What these modules are given in a pass over four tokens, those that are called once."""
    tree = attending_by(model, _RECORDED)
    calls: dict[str, list[_Recorded]] = {name: [] for name in names}

    def hook(name: str) -> Callable[..., None]:
        def note(module: nn.Module, args: Any, kwargs: dict[str, Any], _: Any) -> None:
            given = module.__dict__.get(_GIVEN, {})
            own = {key: value for key, value in given.items() if key not in kwargs}
            calls[name].append(_Recorded(args, kwargs, own))

        return note

    for name in names:
        tree.get_submodule(name).register_forward_hook(hook(name), with_kwargs=True)
    with suppress(*_FAULTS):  # a model whose code takes no other attention function stays as it is
        tree(input_ids=torch.tensor([[0, 1, 0, 1]], device=model.device), use_cache=False)
        return {name: one[0] for name, one in calls.items() if len(one) == 1}
    return {}


def _fused(module: nn.Module, known: _Recorded, sines: SignedSines) -> nn.Module | None:
    """The module that answers as this one does, but for rounding."""
    if _kinds(module) == {torch.float32}:
        return _tried(module, module, known, sines)
    for copied in _copies(module):
        with suppress(*_FAULTS):  # some modules cannot be copied, and not all can be made narrow
            if (fused := _tried(module, copied(module), known, sines)) is not None:
                return fused
    return None


def _copies(module: nn.Module) -> list[Callable[[nn.Module], nn.Module]]:
    """What copies a module to be tried, the smallest first."""
    if _is_layer(module):
        return [hollow]
    return [narrow, in_float32] if _has(module, _MLP) else [in_float32]


def _tried(
    module: nn.Module, copied: nn.Module, known: _Recorded, sines: SignedSines
) -> nn.Module | None:
    """What can be made of `module`, where that made of its copy answers as the copy does."""
    with suppress(*_FAULTS):
        expected = known.answer(copied)
        for make in _makers(module):
            with suppress(*_FAULTS):
                fused = make(copied, known, sines)
                if _same(expected, known.answer(fused)):
                    if copied is module:
                        return fused
                    del copied, fused  # the module in float32: twice its size in bfloat16
                    return make(module, known, sines)
    return None


def _kinds(module: nn.Module) -> set[torch.dtype]:
    """The types of its weights."""
    return {weight.dtype for weight in module.parameters()}


def _same(expected: Any, answer: Any) -> bool:
    """Whether two answers are the same but for rounding."""
    if isinstance(expected, tuple):
        return len(expected) == len(answer) == 2 and _same(expected[0], answer[0])
    if expected.shape != answer.shape:
        return False
    most = 16 * torch.finfo(torch.float32).eps * float(expected.abs().max())
    return float((expected - answer).abs().max()) <= most


def _wide(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


def _makers(module: nn.Module) -> list[_Make]:
    """What may stand for a module, by its parts."""
    if is_changed(module) or isinstance(module, FusedLayer):
        return []
    if _has(module, _ATTENTION) and hasattr(module, "layer_idx"):
        return [_attention]
    if _has(module, _MLP):
        return [_mlp]
    if _is_layer(module):
        return [_layer(norms) for norms in (BEFORE, AFTER, AROUND)]
    weight = module._parameters.get("weight")
    if weight is not None and weight.ndim == 1 and len(module._parameters) == 1:
        # 1 + a weight has more digits than a short type holds
        return [_norm, _norm_around_one] if weight.dtype == torch.float32 else [_norm]
    return []


def _is_layer(module: nn.Module) -> bool:
    """Whether it is made of attention and of an MLP that are fused, or might be."""
    children = [*module.children()]
    return any(type(one) is FusedAttention or _has(one, _ATTENTION) for one in children) and any(
        type(one) is FusedMLP or _has(one, _MLP) for one in children
    )


def _attention(module: Any, known: _Recorded, sines: SignedSines) -> nn.Module:
    return FusedAttention(module, known.given, sines)


def _mlp(module: Any, _: _Recorded, __: SignedSines) -> nn.Module:
    return FusedMLP(module)


def _layer(norms: tuple[bool, ...]) -> _Make:
    return lambda module, *_: fused_layer(module, norms)


def _norm(module: Any, _: _Recorded, __: SignedSines) -> nn.Module:
    return FusedNorm(module.weight.detach(), _eps(module))


def _norm_around_one(module: Any, _: _Recorded, __: SignedSines) -> nn.Module:
    """Whose weight is kept as its distance from 1 (Gemma)."""
    return FusedNorm(1 + module.weight.detach(), _eps(module))


def _eps(module: Any) -> float:
    return float(getattr(module, "variance_epsilon", getattr(module, "eps", 0.0)) or 0.0)


def _has(module: nn.Module, sets: Sequence[Sequence[str]]) -> bool:
    """Whether it has the linear layers of one of these sets."""
    return any(_has_linears(module, names) for names in sets)


def _has_linears(module: nn.Module, names: Sequence[str]) -> bool:
    """Whether it has these linear layers, as plain ones that nobody has changed, of one kind."""
    linears = [module._modules.get(name) for name in names]
    if not all(one is not None and _is_whole(one) for one in linears):
        return False
    alike = {(type(one), one.weight.dtype, one.weight.device) for one in linears[:-1] if one}
    biases = {getattr(one, "bias", None) is None for one in linears[:-1]}
    return len(alike) == 1 and len(biases) == 1


def _is_whole(one: nn.Module) -> bool:
    """Whether it is a linear layer that nobody has changed, and whose weights can be read."""
    return type(one) is nn.Linear and is_plain(one)


def _recording(module: Any, *states: Any, **given: Any) -> Any:
    """An attention function that remembers what a module gives it, and computes as `sdpa` does."""
    module.__dict__[_GIVEN] = given
    return ALL_ATTENTION_FUNCTIONS["sdpa"](module, *states, **given)


AttentionInterface.register(_RECORDED, _recording)
AttentionMaskInterface.register(_RECORDED, sdpa_mask)
