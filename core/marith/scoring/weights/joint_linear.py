"""Several linear layers of one input as one product: each stays a layer to others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from marith.scoring.weights.packing import is_plain, plain_linear


class JointLinear(nn.Module):
    """The weights of several linear layers, one after another, in one.

    Keeps state between the first and the last of its parts: what they are given, and the product.
    """

    def __init__(self, linears: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.parts = len(linears)
        self.linear = _stacked(linears)
        self._known: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """[..., in_features] → [..., all out_features]."""
        out: Tensor = self.linear(x)
        return out

    def kept(self, x: Tensor, last: bool) -> Tensor:
        """Return the product, and keep it for the other parts until the last one has asked."""
        known = self._known  # read once: another thread may run the same modules
        out = known[1] if known is not None and known[0] is x else self(x)
        self._known = None if last else (x, out)
        return out


class LinearPart(nn.Linear):
    """One of several linear layers that are computed by one product.

    To others it is the `nn.Linear` it replaces, so that adapters go over it as over any. A hook on
    it that comes later is not called. Its weights are a view of those of all, while nobody lays
    them out another way.
    """

    def __init__(self, joint: JointLinear, linear: nn.Linear, start: int, last: bool) -> None:
        nn.Module.__init__(self)  # nn.Linear's own would draw weights at random
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.joint = joint
        self._columns = slice(start, start + linear.out_features)
        self._last = last

    # Both are parameters of an `nn.Linear`, and views of another's here.
    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """[out_features, in_features]; once packed, the whole product's in oneDNN's order."""
        whole = self.joint.linear.weight
        return whole[self._columns] if whole.layout is torch.strided else whole

    @property
    def bias(self) -> Tensor | None:  # type: ignore[override]
        """[out_features], or None."""
        whole = self.joint.linear.bias
        return None if whole is None else whole[self._columns]

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (the name that nn.Linear gives it)
        """[..., in_features] → [..., out_features]."""
        return self.joint.kept(input, self._last)[..., self._columns]


def join(module: nn.Module, names: Sequence[str]) -> None:
    """Compute the linear layers of a module with these names, which read one input, by one product.

    Layers that are quantised, hooked or unlike each other stay as they are.
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
    """Return the outputs of layers one after another: by one product where all are its parts."""
    if all(type(one) is LinearPart for one in layers):
        joint: Any = layers[0]._modules["joint"]
        out: Tensor = joint(x)
        return out
    return torch.cat([one(x) for one in layers], dim=-1)


def _stacked(linears: Sequence[nn.Linear]) -> nn.Linear:
    """A layer with the outputs of several, one after another."""
    first = linears[0]
    bias = None if first.bias is None else _all_rows([one.bias for one in linears])
    return plain_linear(_all_rows([one.weight for one in linears]), bias)


def _all_rows(parameters: Sequence[Tensor]) -> nn.Parameter:
    """The rows of all, one after another."""
    rows = torch.cat([one.detach() for one in parameters])
    return nn.Parameter(rows, requires_grad=False)
