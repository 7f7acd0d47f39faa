"""Give a packed product the number of rows at which one row has the bits that it has among many.

oneDNN computes a single row by another kernel, which adds up in another order. So a product is
given as many rows at least as have the same bits as many have; the rows that are added are zeros
and their answers are dropped. Where several numbers have the same bits, a clock may choose between
them: on some processors four rows take less time than one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch

_FEW = 1, 2, 4
_MANY = 64
_ENOUGH = 2**28  # bytes of weights: more than a processor caches
_TURNS = 3


@torch.inference_mode()
def set_fewest_rows(layers: Sequence[Any]) -> None:
    """Set `fewest_rows` of these packed layers: how many rows each computes at least."""
    known: dict[tuple[int, int, torch.dtype], int] = {}
    for layer in layers:
        shape = layer.in_features, layer.out_features, layer.weight.dtype
        if shape not in known:
            known[shape] = _least_alike(layer)
        layer.fewest_rows = known[shape]
    if layers and _four_are_quicker(layers):
        for layer in layers:
            layer.fewest_rows = _FEW[-1]


def _least_alike(layer: Any) -> int:
    """The least number of rows at which the first has the bits that it has among many."""
    many = _input(layer, _MANY)
    expected = layer.product(many)[0]
    alike = (n for n in _FEW if torch.equal(layer.product(many[:n])[0], expected))
    return next(alike, _FEW[-1])


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
        four.append(_seconds(timed, _FEW[-1]))
    return min(four) < min(least)


def _seconds(layers: Sequence[Any], rows: int | None) -> float:
    given = [_input(layer, rows or layer.fewest_rows) for layer in layers]
    begun = time.perf_counter()
    for layer, x in zip(layers, given, strict=True):
        layer.product(x)
    return time.perf_counter() - begun


def _input(layer: Any, rows: int) -> torch.Tensor:
    """Numbers [rows, in] that no rounding hides: the same in every process."""
    count = torch.arange(rows * layer.in_features, dtype=torch.float32)
    return torch.sin(count * 12.9898).view(rows, -1).to(layer.weight.dtype)
