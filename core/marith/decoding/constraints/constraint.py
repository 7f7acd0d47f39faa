"""The protocol of constraints on composed rows: a grammar, a ban, a penalty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class Constraint(Protocol):
    """A change of composed log-probabilities, whatever the formula."""

    def apply(self, rows: Tensor, text: Sequence[int], places: Sequence[int]) -> Tensor:
        """The constrained rows [positions, vocab], normalised; each follows text[:place]."""
        ...
