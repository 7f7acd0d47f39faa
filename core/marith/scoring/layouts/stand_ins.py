"""Small copies in float32 that stand for a module while it is decided how it may be fused.

Rounding hides no other fault there, and a whole module in float32 would take twice its memory.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from marith.scoring.layouts.fused_modules import GATED, FusedAttention, FusedMLP
from marith.scoring.layouts.packing import plain_linear

WIDTH = 64  # of the inner layer of a narrow MLP
_DOWN = "down_proj"
# What is put in the place of a fused part while its layer is tried.
_STANDS_IN: dict[type, Callable[..., Any]] = {
    FusedAttention: lambda hidden_states, **_: (hidden_states.sin(), None),
    FusedMLP: lambda x: torch.tanh(2 * x),
}


def in_float32(module: nn.Module) -> nn.Module:
    """A copy of the whole module."""
    return copy.deepcopy(module).float()


def hollow(layer: nn.Module) -> nn.Module:
    """A copy of a layer with functions in the place of its attention and MLP, which are fused.

    How they are called and added up does not depend on what they compute.
    """
    made = copy.copy(layer)
    made._modules = {name: _part(one) for name, one in layer._modules.items()}
    return made


def narrow(mlp: nn.Module) -> nn.Module:
    """A copy of a gated MLP with few outputs of its gate: its code does not count them."""
    made = copy.copy(mlp)
    made._modules = dict(mlp._modules)
    names, together = GATED
    down: Any = mlp.get_submodule(_DOWN)
    size = down.in_features
    first = torch.arange(min(WIDTH, size))
    for name in names:
        if name in made._modules:
            made._modules[name] = _of_rows(mlp.get_submodule(name), first)
    if together in made._modules:
        both = torch.cat([first, size + first])
        made._modules[together] = _of_rows(mlp.get_submodule(together), both)
    made._modules[_DOWN] = _of_columns(down, len(first))
    for name, part in made._modules.items():
        if name not in (*names, together, _DOWN) and part is not None:
            made._modules[name] = in_float32(part)
    return made


def _part(module: nn.Module | None) -> nn.Module | None:
    if module is None:
        return None
    function = _STANDS_IN.get(type(module))
    if function is None:
        return copy.deepcopy(module).float()
    part = copy.copy(module)
    part.__dict__["forward"] = function
    return part


def _of_rows(linear: Any, rows: Tensor) -> nn.Linear:
    """In float32, some outputs of a layer."""
    bias = None if linear.bias is None else linear.bias.detach()[rows].float()
    return _made(linear.weight.detach()[rows].float(), bias)


def _of_columns(linear: Any, count: int) -> nn.Linear:
    """In float32, of so many first inputs of a layer."""
    bias = None if linear.bias is None else linear.bias.detach().float()
    return _made(linear.weight.detach()[:, :count].float(), bias)


def _made(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    kept = nn.Parameter(weight, requires_grad=False)
    added = None if bias is None else nn.Parameter(bias, requires_grad=False)
    return plain_linear(kept, added)
