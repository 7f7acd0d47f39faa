"""How many rows a packed product computes at least, so that a row's bits do not depend on others.

oneDNN computes one row alone by another kernel than many rows, and the two add up in different
orders: the last bits of a result may differ. So a product of few rows gets rows of zeros, up to the
least number of rows at which the bits are those among many, and the results of the zeros are
dropped. Where several numbers of rows have these bits, a clock may choose between them: on some
processors four rows take less time than one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from marith.scoring.layouts.kept_counts import kept

_log = logging.getLogger(__name__)
_FEW = 1, 2, 4, 8, 16, 32, 64
_MANY = 256
_FOUR = 4  # take less time than one on some processors
_ENOUGH = 2**28  # bytes of weights: more than a processor caches
_TURNS = 3


@torch.inference_mode()
def set_fewest_rows(layers: Sequence[Any]) -> None:
    """Set `fewest_rows` of these packed layers: how many rows each computes at least."""
    counts: dict[str, int] = {}
    for layer in layers:
        shape = f"{layer.in_features} × {layer.out_features} {layer.weight.dtype}"
        if shape not in counts:
            counts[shape] = kept(
                f"{shape}, fewest rows of {_FEW[-1]}", _FEW, partial(_least_alike, layer)
            )
        layer.fewest_rows = counts[shape]
    if layers:
        what = f"{len(layers)} layers ({', '.join(counts)}), whether four rows take less than one"
        if kept(what, (False, True), partial(_four_are_quicker, layers)):
            for layer in layers:
                layer.fewest_rows = max(_FOUR, layer.fewest_rows)


def _least_alike(layer: Any) -> int:
    """The least number of rows at which every row has the bits that it has among many.

    Of many inputs: in a short type rounding hides for most of them that another order was added up.
    """
    many = _input(layer, _MANY)
    expected = layer.product(many)
    for rows in _FEW:
        parts = [layer.product(part) for part in many.split(rows)]
        if torch.equal(torch.cat(parts), expected):
            return rows
    _log.info("a product of %s has other bits among many rows than among few", tuple(many.shape))
    return _FEW[0]


def _four_are_quicker(layers: Sequence[Any]) -> bool:
    """Whether one row takes longer than four do, in turn, over weights that come from memory."""
    timed, held = list[Any](), 0
    for layer in layers:
        timed.append(layer)
        held += layer.weight.numel() * layer.weight.element_size()
        if held > _ENOUGH:
            break
    least, four = list[float](), list[float]()
    for _ in range(_TURNS):
        least.append(_seconds(timed, None))
        four.append(_seconds(timed, _FOUR))
    return min(four) < min(least)


def _seconds(layers: Sequence[Any], rows: int | None) -> float:
    given = [_input(layer, rows or layer.fewest_rows) for layer in layers]
    begun = time.perf_counter()
    for layer, x in zip(layers, given, strict=True):
        layer.product(x)
    return time.perf_counter() - begun


def _input(layer: Any, rows: int) -> torch.Tensor:
    """Numbers [rows, in], the same in every process."""
    count = torch.arange(rows * layer.in_features, dtype=torch.float32)
    return torch.sin(count * 12.9898).view(rows, -1).to(layer.weight.dtype)
