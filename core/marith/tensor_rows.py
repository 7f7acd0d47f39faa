"""References to rows of tensors. Rows are copied only where many texts need them together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

Row: TypeAlias = "tuple[Tensor, int]"  # a tensor [rows, width], and the index of a row


def on_device(values: Any, device: torch.device) -> Tensor:
    """Return a list or an array of numbers as a tensor on a device, without waiting for it."""
    tensor = torch.as_tensor(values)
    # A copy from memory that is not pinned waits until the device has computed all that it was
    # given, such as a pass.
    pinned = tensor.pin_memory() if device.type == "cuda" else tensor
    return pinned.to(device, non_blocking=True)


def rows_of(tensor: Tensor) -> list[Row]:
    """Return all rows of a tensor [rows, width], in order."""
    return [(tensor, index) for index in range(len(tensor))]


def vector(row: Row) -> Tensor:
    """Return one row [width], without a copy."""
    tensor, index = row
    return tensor[index]


def gather(rows: Sequence[Row]) -> Tensor:
    """Return rows as one tensor [rows, width]. Evenly spaced rows of one tensor are a view.

    Rows of one tensor, which is the usual case, take one operation for any number of rows.
    """
    # Each run has rows of one tensor that follow each other in `rows`.
    runs: list[tuple[Tensor, list[int]]] = []
    last = None
    for tensor, index in rows:
        if tensor is not last:
            last = tensor
            runs.append((tensor, []))
        runs[-1][1].append(index)
    parts = [_selected(tensor, indices) for tensor, indices in runs]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def mask_of(tokens: Sequence[int], width: int, device: torch.device) -> Tensor:
    """Return a mask [width] that is True for some tokens."""
    mask = torch.zeros(width, dtype=torch.bool)
    mask[[*tokens]] = True
    return mask.to(device)


def has_nan(logprobs: Tensor) -> bool:
    """Return True if a row of normalised log-probabilities [rows, vocab] is NaN.

    On an accelerator this waits for the device.
    """
    # One column is enough, because one NaN makes its whole row NaN.
    return bool(logprobs[:, -1].isnan().any())


def to_lists(tensors: Sequence[Tensor]) -> list[list[list[float]]]:
    """Return tensors [rows, width] of numbers as lists. All are copied to the host together."""
    if len(tensors) == 1:
        return [tensors[0].tolist()]
    numbers = torch.cat([tensor.flatten() for tensor in tensors]).tolist() if tensors else []
    lists, first = [], 0
    for rows, width in (tensor.shape for tensor in tensors):
        lists.append([numbers[first + i * width : first + (i + 1) * width] for i in range(rows)])
        first += rows * width
    return lists


def compacted(rows: Sequence[Row]) -> list[Row]:
    """Return the rows, or copies if their tensors have more than twice as many rows in total.

    The tensor of a forward pass has a row for each text in the pass, and every row that is kept
    keeps the whole tensor in memory.
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
    return tensor[on_device(indices, tensor.device)]
