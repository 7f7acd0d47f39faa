"""Constraints of the application: functions that change composed rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from marith.errors import MarithError, RequestError, shown
from marith.request.request import RowFunction


@dataclass(frozen=True, slots=True)
class CustomConstraint:
    """Applies a function of the application, and checks and normalises what it returns."""

    function: RowFunction

    def apply(self, rows: Tensor, text: Sequence[int], places: Sequence[int]) -> Tensor:
        """The changed rows [positions, vocab], normalised; each follows text[:place].

        Raises RequestError if the function fails, or returns no rows of the same shape with a token
        that is possible.
        """
        name = getattr(self.function, "__name__", None) or type(self.function).__name__
        try:
            changed = self.function(rows.clone(), list(text), list(places))
        except MarithError:
            raise
        except Exception as error:
            problem = f"the constraint {name} failed with {type(error).__name__}: {error}"
            raise RequestError(problem) from error
        if not isinstance(changed, Tensor) or changed.shape != rows.shape:
            shape = list(changed.shape) if isinstance(changed, Tensor) else shown(changed)
            problem = f"the constraint {name} returns rows {list(rows.shape)}, not {shape}"
            raise RequestError(problem)
        logprobs = torch.log_softmax(changed.to(rows), dim=-1)
        dead = rows.isnan()  # a ban leaves no token here, and the text goes back
        if bool((logprobs.isnan() & ~dead).any()):
            raise RequestError(f"the constraint {name} leaves no token, or is not a number (NaN)")
        return torch.where(dead, rows, logprobs)
