"""What every rule on composed rows can do: a grammar, a ban, a penalty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class Constraint(Protocol):
    """A rule that composed log-probabilities follow, whatever the formula."""

    def apply(self, rows: Tensor, text: Sequence[int], places: Sequence[int]) -> Tensor:
        """The rows [positions, vocab] under the rule, normalised; each follows text[:place]."""
        ...
