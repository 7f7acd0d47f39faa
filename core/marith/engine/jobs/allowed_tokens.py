"""The tokens that the grammar and the ban of one text allow, and where cuts do not apply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from torch import Tensor

from marith.answers.backtracking import Backtracking
from marith.decoding import cuts
from marith.decoding.blocks import Block
from marith.decoding.lift_cuts import lift_cuts
from marith.decoding.matcher import Matcher
from marith.errors import FormulaError, RequestError
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Term
from marith.speculation.window import Window
from marith.tensor_rows import Row, gather, rows_of


class AllowedTokens:
    """Applies the grammar and the ban of one text. Keeps state.

    Where the cuts of the formula and the grammar leave no common token, the formula is composed
    without its cuts. Where still no token is left, a text with a ban is rolled back, and any other
    request fails.
    """

    def __init__(
        self, matcher: Matcher | None, backtracking: Backtracking | None, window: Window
    ) -> None:
        self._matcher = matcher
        self._backtracking = backtracking
        self._window = window
        self._grammatical: Tensor | None = None  # the grammar's mask [places, vocab] of this step
        self._stuck: list[int] = []  # rows of the mask at which no token is left
        self._impossible: set[int] = set()  # places
        self._uncut: set[int] = set()  # places

    def compose(self, rows: Sequence[Row], block: Block, places: Sequence[int]) -> Sequence[Row]:
        """Return the composed rows, without cuts where cuts and grammar leave no common token.

        A token that the grammar excludes keeps its probability, because `apply` masks it later.
        Raises RequestError if the grammar excludes a final token.
        """
        allowed = self._allowed_by_grammar(places)
        if allowed is None:
            return rows
        self._grammatical = allowed.to(rows[0][0].device)
        lifted, at, self._stuck = lift_cuts(
            block.formula, gather(rows), self._grammatical, partial(_rows_at, block)
        )
        # Tokens of partial formulas are only drafts, so places where a partial formula is composed
        # without cuts are not counted.
        if self._is_whole(block.formula):
            self._uncut.difference_update(places)
            self._uncut.update(places[i] for i in at)
        return rows_of(lifted) if at else rows

    def count_uncut(self, end: int) -> int:
        """Return the number of tokens before a place that were drawn without cuts."""
        return sum(place < end for place in self._uncut)

    def apply(self, rows: Tensor, text: Sequence[int], places: Sequence[int]) -> Tensor:
        """Mask tokens that are not allowed in the rows that `compose` returned.

        In a row without an allowed token every token is kept, because the token may be a draft. If
        it becomes final, it is rolled back if the text has a ban, and is an error otherwise.
        """
        allowed = self._grammatical
        if self._backtracking is not None:
            whole = self._is_whole(self._window.formula)
            allowed = self._backtracking.allow(rows, allowed, places, whole)
        elif allowed is not None:
            # A draft at such a place may still be rejected, so the error waits until its token is
            # final.
            self._impossible = {places[row] for row in self._stuck}
            allowed[self._stuck] = True
        return rows if allowed is None else cuts.keep(rows, allowed)

    def require(self, place: int) -> None:
        """Raise FormulaError for a final place where grammar and formula share no token."""
        if place in self._impossible:
            raise FormulaError(
                "the formula gives no probability to any token that the grammar allows here, "
                "even without its cuts: one of its parts excludes them"
            )

    def _is_whole(self, formula: Formula) -> bool:
        """Return True for the plan's whole formula, not for a partial formula."""
        return formula == self._window.plan.whole

    def _allowed_by_grammar(self, places: Sequence[int]) -> Tensor | None:
        if self._matcher is None:
            return None
        allowed = self._matcher.allowed(self._window.tokens, places)
        # Verification drops a draft that the grammar refuses, but a final token stays.
        if self._matcher.reached < self._window.final:
            raise RequestError(self._matcher.refusal)
        return allowed


def _rows_at(block: Block, positions: Sequence[int]) -> Mapping[Term, Tensor]:
    """Return the rows [positions, vocab] of each term of a block."""
    return {term: gather([block.rows[term][at] for at in positions]) for term in block.terms}
