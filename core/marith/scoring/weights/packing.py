"""Lay a model's weights out for products with few rows.

A CPU's matrix product is made for many rows, and decoding brings a handful. oneDNN, once it has
laid the weights out its way, takes four rows for about the price of one.

Which layers are packed is a rule on their shape, dtype and processor, and no measurement: the two
layouts add up in different orders, so a layout that a clock chose would give other bits, and at a
near tie another text, from one process to the next. For the same reason one row is computed as
part of several, where it would have other bits alone (`set_fewest_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

SMALLEST = 2**16  # weights of a layer; with fewer, a call costs what their layout saves
# Numbers of rows that are compared, the first with all others. In float32 at most one row differs
# from several; with AMX, products of a short type change their kernel at 33 rows.
_ROWS, _ROWS_SHORT = (4, 2, 1), (64, 33, 16, 4, 2, 1)
# By type: processors with this flag multiply four rows in 0.8 of the time of one row, so a product
# has at least four rows.
_FOUR = {torch.float32: "avx512_f", torch.bfloat16: "avx512_bf16"}
# How many results are compared. In float32 nine of ten show another order of adding up; in a short
# type rounding hides it in most.
_RESULTS, _RESULTS_SHORT = 2**9, 2**17
_MOST = 256  # rows of input, whatever a layer's width


class Packed(nn.Linear):
    """A linear layer whose weights only oneDNN can read: for inference, in their own dtype.

    To others it is the `nn.Linear` it replaces, so that adapters go over it as over any. What
    needs the weights themselves (merging, saving, another dtype) raises; no gradient passes.
    """

    def __init__(self, linear: nn.Linear | Conv1D) -> None:
        nn.Module.__init__(self)  # nn.Linear's own would draw weights at random
        weight = _weight(linear)
        self.out_features, self.in_features = weight.shape
        self.weight = nn.Parameter(_laid_out(weight), requires_grad=False)
        self.bias = linear.bias
        self.fewest_rows = 1
        self.train(linear.training)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (the name that nn.Linear gives it)
        """From [..., in_features] to [..., out_features]."""
        rows = input.numel() // self.in_features
        missing = self.fewest_rows - rows
        if missing <= 0 or not rows:
            return self.product(input)
        padded = functional.pad(input.reshape(rows, -1), (0, 0, 0, missing))
        return self.product(padded)[:rows].view(*input.shape[:-1], -1)

    def product(self, x: Tensor) -> Tensor:
        """The same, of as many rows as there are."""
        return _product(x, self.weight, self.bias)


def pack(model: nn.Module, smallest: int = SMALLEST) -> None:
    """Replace, in place, every linear of at least `smallest` weights; twice is as once.

    These are `nn.Linear` and `Conv1D` in a CPU's memory; their subclasses, and quantised or
    hooked ones, stay. Each original weight is let go of before the next is packed: memory peaks
    at the model and one layer. A head tied to the embedding gets a copy of its own.
    """
    places = _places(model, smallest)
    while places:
        layer, owners = places.popitem()
        packed = Packed(layer)
        del layer
        for parent, name in owners:
            setattr(parent, name, packed)
    set_fewest_rows([one for one in model.modules() if type(one) is Packed])


def packs(model: Any) -> bool:
    """Whether the large ones of a model's linear layers are packed."""
    return bool(model.device.type == "cpu" and _takes(model.dtype))


def _places(model: nn.Module, smallest: int) -> dict[Any, list[tuple[nn.Module, str]]]:
    """Every layer to pack, and who holds it under which name."""
    places: dict[Any, list[tuple[nn.Module, str]]] = {}
    for parent in model.modules():
        for name, child in parent._modules.items():
            if child is not None and _is_packable(child, smallest):
                places.setdefault(child, []).append((parent, name))
    return places


def _is_packable(module: nn.Module, smallest: int) -> bool:
    """Exactly a linear, with plain weights that oneDNN takes, that nobody has changed."""
    if type(module) not in (nn.Linear, Conv1D) or not is_plain(module):
        return False
    weight: Any = module.weight
    return bool(weight.device.type == "cpu" and weight.numel() >= smallest and _takes(weight.dtype))


def is_plain(module: nn.Module) -> bool:
    """Whether its weights are plain, and nobody has a hook on it or another `forward` for it."""
    weight = module._parameters.get("weight")
    return (
        type(weight) is nn.Parameter  # quantised weights come as subclasses of tensors too
        and weight.layout is torch.strided
        and not module._forward_pre_hooks
        and not module._forward_hooks
        and "forward" not in vars(module)
    )


def _takes(dtype: torch.dtype) -> bool:
    """Whether this torch has the operator, and the operator this processor and this dtype."""
    if not torch.backends.mkldnn.is_available():
        return False
    try:
        one = torch.ones(1, 1, dtype=dtype)
        return bool(_product(one, _laid_out(one), None) == one)
    except (AttributeError, RuntimeError):
        return False


def plain_linear(weight: nn.Parameter, bias: nn.Parameter | None) -> nn.Linear:
    """A plain layer with this weight [out, in], for which no numbers are drawn."""
    made = nn.Linear(1, 1, bias=False, device="meta")
    made.out_features, made.in_features = weight.shape
    made.weight = weight
    if bias is not None:
        made.bias = bias
    return made


def _weight(linear: nn.Linear | Conv1D) -> Tensor:
    """[out, in]; GPT-2's layer holds them the other way round."""
    weight: Tensor = linear.weight.detach()
    return weight.t() if type(linear) is Conv1D else weight


def _laid_out(weight: Tensor) -> Tensor:
    """The weights [out, in] in oneDNN's own order."""
    laid_out: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
    return laid_out


def _product(x: Tensor, laid_out: Tensor, bias: Tensor | None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, laid_out, bias, "none", [], "")
    return product


@torch.inference_mode()
def set_fewest_rows(layers: Sequence[Any]) -> None:
    """Set `fewest_rows` of a model's packed layers: how many rows each computes at least.

    Layers of one shape and type have one number, found with the first of them.
    """
    known: dict[tuple[int, int, torch.dtype], int] = {}
    for layer in layers:
        shape = layer.in_features, layer.out_features, layer.weight.dtype
        if shape not in known:
            known[shape] = _least_alike(layer)
        layer.fewest_rows = known[shape]


def _least_alike(layer: Any) -> int:
    """The least number of rows from which on every row has the bits that it has among many."""
    dtype = layer.weight.dtype
    is_long = dtype == torch.float32
    floor = 4 if torch.cpu.get_capabilities().get(_FOUR.get(dtype, "")) else 1
    many, *fewer = (count for count in (_ROWS if is_long else _ROWS_SHORT) if count >= floor)
    if not fewer:
        return many
    results = _RESULTS if is_long else _RESULTS_SHORT
    compared = min(_MOST, max(2, results // layer.out_features))
    rows = _input(layer, -(-compared // many) * many)
    expected = torch.cat([layer.product(part) for part in rows.split(many)])
    least = many
    for count in fewer:
        starts = range(0, len(rows) - count + 1, count)  # no shorter part: it is another kernel's
        parts = (slice(start, start + count) for start in starts)
        if not all(torch.equal(layer.product(rows[at]), expected[at]) for at in parts):
            break
        least = count
    return least


def _input(layer: Any, rows: int) -> torch.Tensor:
    """Numbers [rows, in], the same in every process."""
    count = torch.arange(rows * layer.in_features, dtype=torch.float32)
    return torch.sin(count * 12.9898).view(rows, -1).to(layer.weight.dtype)
