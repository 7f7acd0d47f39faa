"""Rows of tensors, without copies until they are gathered for many texts at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

Row: TypeAlias = "tuple[Tensor, int]"  # a tensor [rows, width], and which of its rows


def rows_of(tensor: Tensor) -> list[Row]:
    """All rows of a tensor [rows, width], in order."""
    return [(tensor, index) for index in range(len(tensor))]


def vector(row: Row) -> Tensor:
    """One row [width], without a copy."""
    tensor, index = row
    return tensor[index]


def gather(rows: Sequence[Row]) -> Tensor:
    """The rows as one tensor [rows, width], a view where they are evenly spaced in one tensor.

    Rows of the same tensor, which is the usual case, take one operation however many there are.
    """
    runs: list[tuple[Tensor, list[int]]] = []  # neighbouring rows of one tensor
    last = None
    for tensor, index in rows:
        if tensor is not last:
            last = tensor
            runs.append((tensor, []))
        runs[-1][1].append(index)
    parts = [_selected(tensor, indices) for tensor, indices in runs]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def compacted(rows: Sequence[Row]) -> list[Row]:
    """Return the rows, copied if the tensors that they keep in memory are more than twice as long.

    A tensor of a pass has a row for each text that took part in it.
    """
    tensors = {id(tensor): len(tensor) for tensor, _ in rows}
    if sum(tensors.values()) <= 2 * len(rows):
        return list(rows)
    return rows_of(gather(rows).clone())


def _selected(tensor: Tensor, indices: list[int]) -> Tensor:
    first, end = indices[0], indices[-1] + 1
    step = indices[1] - first if len(indices) > 1 else 1
    if step > 0 and indices == list(range(first, end, step)):
        return tensor if len(indices) == len(tensor) else tensor[first:end:step]
    return tensor[torch.tensor(indices).to(tensor.device)]
