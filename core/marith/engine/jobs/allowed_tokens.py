"""The tokens that the grammar and the ban of one text allow, and where cuts do not apply."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from torch import Tensor

from marith.answers.backtracking import Backtracking
from marith.decoding import cuts
from marith.decoding.evaluate import lift_cuts
from marith.decoding.matcher import Matcher
from marith.errors import FormulaError, RequestError
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Term
from marith.speculation.window import Block, Window
from marith.tensor_rows import Row, gather, rows_of


class AllowedTokens:
    """Applies the grammar and the ban of one text. Keeps state.

    Where the cuts of the formula and the grammar leave no token in common, the formula is composed
    without its cuts. Where the grammar still leaves no token, the formula is at fault. If the ban
    leaves none, the text goes back.
    """

    def __init__(
        self, matcher: Matcher | None, backtracking: Backtracking | None, window: Window
    ) -> None:
        self._matcher = matcher
        self._backtracking = backtracking
        self._window = window
        self._grammatical: Tensor | None = None  # the grammar's mask [places, vocab] of this step
        self._impossible: set[int] = set()  # places
        self._uncut: set[int] = set()  # places

    def compose(
        self, rows: Sequence[Row], blocks: Sequence[Block], places: Sequence[int]
    ) -> Sequence[Row]:
        """Return the composed rows, without cuts where cuts and grammar leave no token in common.

        A token that the grammar excludes keeps its probability. Raises RequestError if the grammar
        excludes a final token.
        """
        self._grammatical = self._allowed_by_grammar(places)
        if self._grammatical is None:
            return rows
        composed: list[Row] = []
        for block in blocks:
            part = slice(len(composed), len(composed) + block.count)
            logprobs = gather(rows[part])
            allowed = self._grammatical[part].to(logprobs.device)
            lifted, at = lift_cuts(block.formula, logprobs, allowed, partial(_rows_at, block))
            composed += rows_of(lifted) if at else rows[part]
            if self._is_whole(block.formula):
                self._uncut.difference_update(places[part])
                self._uncut.update(places[part][i] for i in at)
        return composed

    def count_uncut(self, end: int) -> int:
        """Return the number of tokens before a place that were drawn without cuts."""
        return sum(place < end for place in self._uncut)

    def apply(self, rows: Tensor, text: Sequence[int], places: Sequence[int]) -> Tensor:
        """Mask tokens that are not allowed in the rows that `compose` returned."""
        allowed = self._grammatical
        if self._backtracking is not None:
            whole = [self._is_whole(formula) for formula in self._window.formulas]
            allowed = self._backtracking.allow(rows, allowed, places, whole)
        elif allowed is not None:
            allowed = self._possible(allowed, places, rows)
        return rows if allowed is None else cuts.keep(rows, allowed.to(rows.device))

    def require(self, place: int) -> None:
        """Raise FormulaError for a final token where grammar and formula allow no common token."""
        if place in self._impossible:
            raise FormulaError(
                "the formula gives no probability to any token that the grammar allows here, "
                "even without its cuts: one of its parts excludes them"
            )

    def _is_whole(self, formula: Formula) -> bool:
        """Return True if a formula is the request's, and not a part of it that drafts."""
        return formula in (self._window.plan.whole, self._window.plan.alternative)

    def _allowed_by_grammar(self, places: Sequence[int]) -> Tensor | None:
        if self._matcher is None:
            return None
        allowed = self._matcher.allowed(self._window.tokens, places)
        if self._matcher.reached < self._window.final:  # the grammar refuses a final token
            raise RequestError(self._matcher.refusal)
        return allowed

    def _possible(self, allowed: Tensor, places: Sequence[int], logprobs: Tensor) -> Tensor:
        """Allow every token where none is left. Such a token is an error once it is final."""
        may = (logprobs > -math.inf) & allowed.to(logprobs.device)
        left = may.any(dim=-1, keepdim=True)
        flags = left[:, 0].tolist()
        self._impossible = {place for place, some in zip(places, flags, strict=True) if not some}
        return may | ~left


def _rows_at(block: Block, positions: Sequence[int]) -> Mapping[Term, Tensor]:
    """Return the rows [positions, vocab] of each term of a block."""
    return {term: gather([block.rows[term][at] for at in positions]) for term in block.terms}
