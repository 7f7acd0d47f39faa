"""A decoder layer whose attention and MLP are fused, without transformers' way around them."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from marith.scoring.layouts.fused_modules import FusedAttention, FusedMLP

# Which norms a layer has: before attention, after it, before the MLP, after it.
BEFORE, AFTER, AROUND = (True, False, True, False), (False, True, False, True), (True,) * 4


class FusedLayer(nn.Module):
    """x + attention(x), and to that the MLP of it, each between norms.

    Every class of fused layers is one of the layers it stands for too: see `fused_layer`.
    """

    _names: tuple[str, ...]  # of the modules in the order of their calls; "" for no norm
    _scale: float

    def forward(self, hidden_states: Tensor, **others: Any) -> Tensor:
        """[texts, width, hidden] → [texts, width, hidden]."""
        # Not by calls: no hook stands over these parts, and the way to it takes as long as a norm.
        first, attend, second, third, mlp, fourth = map(self._modules.get, self._names)
        assert attend is not None
        assert mlp is not None
        x = hidden_states
        out = attend.forward(x if first is None else first.forward(x), **others)[0]
        x = self._added(x, out if second is None else second.forward(out))
        out = mlp.forward(x if third is None else third.forward(x))
        return self._added(x, out if fourth is None else fourth.forward(out))

    def _added(self, x: Tensor, out: Tensor) -> Tensor:
        return x + out if self._scale == 1 else torch.add(x, out, alpha=self._scale)


def fused_layer(layer: nn.Module, norms: tuple[bool, ...]) -> FusedLayer:
    """What stands for a layer with these norms, in the order in which the layer names them.

    It has the layer's own modules under their names, and is of a class that is the layer's too, so
    that whoever looks for such layers finds it. Raises ValueError where the modules are others.
    """
    parts = {k: one for k, one in layer.named_children() if not isinstance(one, nn.Dropout)}
    attention = [name for name, one in parts.items() if type(one) is FusedAttention]
    mlp = [name for name, one in parts.items() if type(one) is FusedMLP]
    rest = [name for name in parts if name not in (*attention, *mlp)]
    if (len(attention), len(mlp), len(rest)) != (1, 1, sum(norms)):
        raise ValueError(f"not a layer of one attention, one MLP and {sum(norms)} norms")
    ordered = iter(rest)
    first, second, third, fourth = (next(ordered) if there else "" for there in norms)
    fused = copy.copy(layer)
    kind: Any = type(layer)
    fused.__class__ = _class_of(kind)
    fused.__dict__ |= {
        "_modules": dict(layer._modules),
        "_names": (first, attention[0], second, third, mlp[0], fourth),
        "_scale": float(getattr(layer, "residual_multiplier", 1.0)),
    }
    assert isinstance(fused, FusedLayer)
    return fused


@cache
def _class_of(kind: Any) -> type[FusedLayer]:
    """One for each class of layers: transformers finds the layers whose states it keeps by it."""
    made: type[FusedLayer] = type(f"Fused{kind.__name__}", (FusedLayer, kind), {})
    if "forward" in vars(made):  # transformers puts one for training around that of each subclass
        del made.forward
    return made
