"""No end before a text has so many tokens."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import torch
from torch import Tensor


class LeastLength:
    """Forbids the tokens that end a text at the places before `least`."""

    def __init__(self, ends: Collection[int], least: int) -> None:
        self._ends, self._least = sorted(ends), least

    def apply(self, rows: Tensor, text: Sequence[int], places: Sequence[int]) -> Tensor:
        """The constrained rows [positions, vocab], normalised; each follows text[:place].

        A row that has nothing but ends stays: a grammar may allow nothing more.
        """
        early = [i for i, place in enumerate(places) if place < self._least]
        if not early or not self._ends:
            return rows
        going_on = rows[early].index_fill(
            1, torch.tensor(self._ends, device=rows.device), -math.inf
        )
        some = (going_on > -math.inf).any(dim=-1, keepdim=True)
        changed = rows.clone()
        changed[early] = torch.where(some, torch.log_softmax(going_on, dim=-1), rows[early])
        return changed
