"""The tokens that a request's grammar and ban allow, as a constraint on composed rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from marith.answers.backtracking import Backtracking
from marith.decoding import cuts
from marith.decoding.constraints.matcher import Matcher
from marith.errors import FormulaError, RequestError
from marith.speculation.plain_window import Window


class AllowedTokens:
    """Keeps state, for one text: where its grammar leaves the formula nothing.

    Grammar and ban are one constraint: where the grammar alone leaves nothing, the formula is at
    fault; where the ban does, the text goes back.
    """

    def __init__(
        self, matcher: Matcher | None, backtracking: Backtracking | None, window: Window
    ) -> None:
        self._matcher = matcher
        self._backtracking = backtracking
        self._window = window
        self._impossible: set[int] = set()  # places

    def apply(self, rows: Tensor, text: Sequence[int], places: Sequence[int]) -> Tensor:
        """Raises RequestError where the grammar allows no token at all."""
        allowed = self._grammatical(text, places)
        if self._backtracking is not None:
            plan = self._window.plan
            whole = [formula in (plan.whole, plan.aside) for formula in self._window.formulas]
            allowed = self._backtracking.allow(rows, allowed, places, whole)
        elif allowed is not None:
            allowed = self._possible(allowed, places, rows)
        return rows if allowed is None else cuts.keep(rows, allowed.to(rows.device))

    def require(self, place: int) -> None:
        """Raises FormulaError for a final token where the grammar has left the formula nothing."""
        if place in self._impossible:
            raise FormulaError(
                "the formula gives no probability to any token that the grammar allows here: a "
                "cut in it, such as plausible or top_k, leaves too few; cut by Sampling instead"
            )

    def _grammatical(self, text: Sequence[int], places: Sequence[int]) -> Tensor | None:
        if self._matcher is None:
            return None
        allowed = self._matcher.allowed(text, places)
        if self._matcher.reached < self._window.final:  # a final token does not match
            raise RequestError(self._matcher.refusal)
        return allowed

    def _possible(self, allowed: Tensor, places: Sequence[int], logprobs: Tensor) -> Tensor:
        """Where nothing is left, anything: such a token is an error once it is final."""
        may = (logprobs > -math.inf) & allowed.to(logprobs.device)
        left = may.any(dim=-1, keepdim=True)
        flags = left[:, 0].tolist()
        self._impossible = {place for place, some in zip(places, flags, strict=True) if not some}
        return may | ~left
