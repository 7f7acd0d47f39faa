"""How many rows a packed product computes at least, so that a row's bits do not depend on others.

oneDNN computes few rows by another kernel than many, and the two add up in different orders: the
last bits of a result may differ. So a product of few rows gets rows of zeros, up to the least
number of rows at which the bits are those among many, and the results of the zeros are dropped.
The number follows from the processor, its threads, and the product's shape and type. It is found by
comparing results, except for one rule for each type: no clock is read, and every process finds the
same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

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
