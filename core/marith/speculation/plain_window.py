"""The window of a text without drafts: each token is final once it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Term
from marith.speculation.execution_plan import ExecutionPlan
from marith.speculation.verify import Verdict
from marith.speculation.window import Block, DraftWindow, Verified
from marith.tensor_rows import Row


class PlainWindow:
    """A text for which every term is evaluated at every position.

    It has the methods of `DraftWindow`, without drafts, stages or stored rows. For one thread.
    `steered` says whether the formula is composed after a text, or the plan's `aside`; the text
    begins with `prefix`.
    """

    drafted = accepted = 0
    verified: Mapping[Formula, Verified] = {}

    def __init__(
        self,
        plan: ExecutionPlan,
        steered: Callable[[Sequence[int]], bool] | None = None,
        prefix: Sequence[int] = (),
    ) -> None:
        self.plan = plan
        self.tokens: list[int] = [*prefix]
        self._steered = steered
        formulas = [formula for formula in (plan.whole, plan.aside) if formula is not None]
        self._terms = {formula: plan.leaves(formula) for formula in formulas}
        self._counts = dict.fromkeys(plan.terms, 1)
        self._answers: Mapping[Term, Sequence[Row]] = {}

    @property
    def final(self) -> int:
        """The number of tokens: all are final."""
        return len(self.tokens)

    @property
    def places(self) -> list[int]:
        """The position that is composed next."""
        return [len(self.tokens)]

    @property
    def formulas(self) -> list[Formula]:
        """The formula that is composed there, or the plan's `aside`."""
        aside = self.plan.aside
        if aside is None or self._steered is None or self._steered(self.tokens):
            return [self.plan.whole]
        return [aside]

    def standing(self) -> list[None]:
        """There is no token at the composed position."""
        return [None]

    def wanted(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        """The text, and at how many of its last positions each term is wanted: one."""
        return self.tokens, self._counts

    def receive(self, answers: Mapping[Term, Sequence[Row]]) -> None:
        """Take the log-probabilities that were wanted, one row [vocab] for each term."""
        self._answers = answers

    def rows(
        self, terms: Collection[Term], count: int, answers: Mapping[Term, Sequence[Row]]
    ) -> dict[Term, Sequence[Row]]:
        """The rows of the composed position, from `answers` that are not received yet."""
        return {term: answers[term] for term in terms}

    def blocks(self) -> list[Block]:
        """The block to compose."""
        (formula,) = self.formulas
        return [Block(formula, self._terms[formula], self._answers, 1)]

    def accept(self, verdict: Verdict) -> list[int]:
        """Add the token that was drawn, and return it."""
        self.tokens += verdict.tokens
        return verdict.tokens

    def rewind(self, place: int) -> None:
        """Remove the tokens from a place on."""
        del self.tokens[place:]


Window: TypeAlias = "PlainWindow | DraftWindow"
