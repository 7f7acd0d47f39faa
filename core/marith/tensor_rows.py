"""Rows of tensors: referred to without a copy, and gathered once for many texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

Row: TypeAlias = "tuple[Tensor, int]"  # a tensor [rows, width], and which of its rows


def rows_of(tensor: Tensor) -> list[Row]:
    """All rows of a tensor [rows, width], in order."""
    return [(tensor, at) for at in range(len(tensor))]


def vector(row: Row) -> Tensor:
    """One row [width], without a copy."""
    tensor, at = row
    return tensor[at]


def gather(rows: Sequence[Row]) -> Tensor:
    """The rows as one tensor [rows, width], without a copy where they lie at even distances.

    Rows of one tensor, which is the rule, take one operation, however many texts they are from.
    """
    runs: list[tuple[Tensor, list[int]]] = []
    tensor = None
    for owner, at in rows:
        if owner is not tensor:
            tensor = owner
            runs.append((owner, []))
        runs[-1][1].append(at)
    parts = [_taken(owner, places) for owner, places in runs]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def compacted(rows: Sequence[Row]) -> list[Row]:
    """The same rows; copied where the tensors that they keep in memory are more than twice as long.

    A tensor of a pass has a row for each text that took part in it.
    """
    tensors = {id(tensor): len(tensor) for tensor, _ in rows}
    if sum(tensors.values()) <= 2 * len(rows):
        return list(rows)
    return rows_of(gather(rows).clone())


def _taken(tensor: Tensor, places: list[int]) -> Tensor:
    first, end = places[0], places[-1] + 1
    step = places[1] - first if len(places) > 1 else 1
    if step > 0 and places == list(range(first, end, step)):
        return tensor if len(places) == len(tensor) else tensor[first:end:step]
    return tensor[torch.tensor(places).to(tensor.device)]
