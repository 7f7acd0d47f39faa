"""Store a model's weights in a layout for products with few rows.

A CPU's matrix product is made for many rows, but decoding has only a few. If oneDNN has reordered
the weights, four rows take about as long as one row.

The shape, dtype and processor decide which layers are packed, and not a measurement. The two
layouts add up in different orders. A layout chosen by measured times would give other bits from one
process to the next and, at a near tie, another text. For the same reason a single row is computed
as part of several rows if it would have other bits alone (`set_fewest_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.pytorch_utils import Conv1D

# A layer with fewer weights is not packed, because the call costs as much as the layout saves.
SMALLEST = 2**16
# Products of the first number of rows are compared with products of each other number. In float32
# only a single row may differ from several rows. With AMX, products of a 16-bit type change their
# kernel at 33 rows.
_ROWS, _ROWS_SHORT = (4, 2, 1), (64, 33, 16, 4, 2, 1)
# A processor with the flag of a type multiplies four rows in 0.8 of the time of one row, so its
# products have at least four rows.
_FOUR = {torch.float32: "avx512_f", torch.bfloat16: "avx512_bf16"}
# About this number of results is compared. In float32, nine of ten results show another order of
# addition. In a 16-bit type, rounding hides it in most results, so that more are needed.
_RESULTS, _RESULTS_SHORT = 2**9, 2**17
# At most this number of rows of input is compared, rounded up to whole products.
_MOST = 256
# `results_vary` compares products of these numbers of rows.
_TRIED = 128, 33, 4, 1


class Packed(nn.Linear):
    """A linear layer whose weights only oneDNN can read, for inference in the weights' own dtype.

    To other code it is the `nn.Linear` that it replaces, so adapters can wrap it like any linear
    layer. Code that needs the weights themselves raises (merging, saving, conversion to another
    dtype). No gradient passes through it.
    """

    def __init__(self, linear: nn.Linear | Conv1D) -> None:
        # nn.Linear.__init__ would draw random weights.
        nn.Module.__init__(self)
        weight = _weight(linear)
        self.out_features, self.in_features = weight.shape
        self.weight = nn.Parameter(_laid_out(weight), requires_grad=False)
        self.bias = linear.bias
        self.fewest_rows = 1
        self.train(linear.training)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (the name that nn.Linear gives it)
        """Return the outputs: [..., in_features] → [..., out_features].

        At least `fewest_rows` rows are computed.
        """
        rows = input.numel() // self.in_features
        missing = self.fewest_rows - rows
        if missing <= 0 or not rows:
            return self.product(input)
        padded = functional.pad(input.reshape(rows, -1), (0, 0, 0, missing))
        return self.product(padded)[:rows].view(*input.shape[:-1], -1)

    def product(self, x: Tensor) -> Tensor:
        """Return the outputs of the rows of `x`, without padding: [..., in] → [..., out]."""
        return _product(x, self.weight, self.bias)


def pack(model: nn.Module, smallest: int = SMALLEST) -> None:
    """Replace, in place, every linear layer that has at least `smallest` weights.

    Packed layers are not packed again. `nn.Linear` and `Conv1D` in a CPU's memory are replaced;
    their subclasses, and quantised or hooked layers, stay. Each original weight is freed before the
    next weight is packed, so the peak of memory is the model plus one layer. A head that is tied to
    the embedding gets a copy of its own.
    """
    places = _places(model, smallest)
    while places:
        layer, owners = places.popitem()
        packed = Packed(layer)
        # Without this reference, the original weight is freed when its owners let it go.
        del layer
        for parent, name in owners:
            setattr(parent, name, packed)
    set_fewest_rows([one for one in model.modules() if type(one) is Packed])


def packs(model: Any) -> bool:
    """Return True if `pack` would replace the model's large linear layers."""
    return bool(model.device.type == "cpu" and _takes(model.dtype))


def _places(model: nn.Module, smallest: int) -> dict[Any, list[tuple[nn.Module, str]]]:
    """Return every layer to pack, with each module that has the layer and the name it has there."""
    places: dict[Any, list[tuple[nn.Module, str]]] = {}
    for parent in model.modules():
        for name, child in parent._modules.items():
            if child is not None and _is_packable(child, smallest):
                places.setdefault(child, []).append((parent, name))
    return places


def _is_packable(module: nn.Module, smallest: int) -> bool:
    """Return True for an unmodified linear layer with plain weights that oneDNN can read."""
    if type(module) not in (nn.Linear, Conv1D) or not is_plain(module):
        return False
    weight: Any = module.weight
    return bool(weight.device.type == "cpu" and weight.numel() >= smallest and _takes(weight.dtype))


def is_plain(module: nn.Module) -> bool:
    """Return True if a module has plain weights, no hooks, and its class's own `forward`."""
    weight = module._parameters.get("weight")
    return (
        # Quantised weights may be subclasses of nn.Parameter.
        type(weight) is nn.Parameter
        and weight.layout is torch.strided
        and not module._forward_pre_hooks
        and not module._forward_hooks
        and "forward" not in vars(module)
    )


def _takes(dtype: torch.dtype) -> bool:
    """Return True if torch has the operator, and the operator supports the processor and dtype."""
    if not torch.backends.mkldnn.is_available():
        return False
    try:
        one = torch.ones(1, 1, dtype=dtype)
        return bool(_product(one, _laid_out(one), None) == one)
    except (AttributeError, RuntimeError):
        return False


def plain_linear(weight: nn.Parameter, bias: nn.Parameter | None) -> nn.Linear:
    """Return a plain layer with this weight [out, in], without drawing random weights."""
    made = nn.Linear(1, 1, bias=False, device="meta")
    made.out_features, made.in_features = weight.shape
    made.weight = weight
    if bias is not None:
        made.bias = bias
    return made


def _weight(linear: nn.Linear | Conv1D) -> Tensor:
    """Return the weight [out, in]. GPT-2's layer stores it transposed."""
    weight: Tensor = linear.weight.detach()
    return weight.t() if type(linear) is Conv1D else weight


def _laid_out(weight: Tensor) -> Tensor:
    """Return the weights [out, in] in oneDNN's own layout."""
    laid_out: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
    return laid_out


def _product(x: Tensor, laid_out: Tensor, bias: Tensor | None) -> Tensor:
    product: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, laid_out, bias, "none", [], "")
    return product


@torch.inference_mode()
def set_fewest_rows(layers: Sequence[Any]) -> None:
    """Set `fewest_rows` of packed layers: the smallest number of rows that each layer computes.

    All layers of one shape and dtype have the same number, which the first such layer determines.
    """
    known: dict[tuple[int, int, torch.dtype], int] = {}
    for layer in layers:
        shape = layer.in_features, layer.out_features, layer.weight.dtype
        if shape not in known:
            known[shape] = _fewest_stable_rows(layer)
        layer.fewest_rows = known[shape]


def _fewest_stable_rows(layer: Any) -> int:
    """Return the smallest number of rows above which results no longer depend on the number.

    In a product of this number of rows, or more, each row has the same bits as among many rows.
    """
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
        # All parts have `count` rows, because a shorter part may use another kernel.
        starts = range(0, len(rows) - count + 1, count)
        parts = (slice(start, start + count) for start in starts)
        if not all(torch.equal(layer.product(rows[at]), expected[at]) for at in parts):
            break
        least = count
    return least


@torch.inference_mode()
def results_vary(model: nn.Module) -> bool:
    """Return True if the last bits of a product of the model depend on the number of its rows.

    One linear layer of each shape is tried, except for layers that are quantised or hooked.
    """
    linears: list[Any] = [
        one
        for one in model.modules()
        if type(one) is Packed or (type(one) is nn.Linear and is_plain(one))
    ]
    shapes = {(one.in_features, one.out_features, one.weight.dtype): one for one in linears}
    for layer in shapes.values():
        rows = _input(layer, _TRIED[0])
        expected = layer(rows)
        if not all(torch.equal(layer(rows[:count]), expected[:count]) for count in _TRIED):
            return True
    return False


def _input(layer: Any, rows: int) -> torch.Tensor:
    """Return an input [rows, in] that is the same in every process."""
    count = torch.arange(rows * layer.in_features, dtype=torch.float32)
    return torch.sin(count * 12.9898).view(rows, -1).to(layer.weight.dtype)
