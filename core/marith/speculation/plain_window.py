"""One token at a time: nothing is drafted, and every token is final once it is drawn."""

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
    """A text whose every term is evaluated at every position.

    It has the verbs of `DraftWindow`, and none of its bookkeeping: no draft, no stage, no row that
    waits. For one thread. `steered` says after which texts the formula is composed, and not the
    one that stands aside for it.
    """

    drafted = accepted = 0
    verified: Mapping[Formula, Verified] = {}

    def __init__(
        self, plan: ExecutionPlan, steered: Callable[[Sequence[int]], bool] | None = None
    ) -> None:
        self.plan = plan
        self.tokens: list[int] = []
        self._steered = steered
        self._counts = dict.fromkeys(plan.terms, 1)
        self._answers: Mapping[Term, Sequence[Row]] = {}

    @property
    def final(self) -> int:
        """How many tokens there are: each is final."""
        return len(self.tokens)

    @property
    def places(self) -> list[int]:
        """The composed position."""
        return [len(self.tokens)]

    @property
    def formulas(self) -> list[Formula]:
        """What is composed there: the formula, or what stands aside for it."""
        aside = self.plan.aside
        if aside is None or self._steered is None or self._steered(self.tokens):
            return [self.plan.whole]
        return [aside]

    def standing(self) -> list[None]:
        """Nothing stands at the composed position."""
        return [None]

    def wanted(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        """The whole text, and each term at its end."""
        return self.tokens, self._counts

    def receive(self, answers: Mapping[Term, Sequence[Row]]) -> None:
        """The log-probabilities that were wanted, one row [vocab] each."""
        self._answers = answers

    def rows(
        self, terms: Collection[Term], count: int, answers: Mapping[Term, Sequence[Row]]
    ) -> dict[Term, Sequence[Row]]:
        """Of the composed position; `answers` are not received yet."""
        return {term: answers[term] for term in terms}

    def blocks(self) -> list[Block]:
        """What is to be composed."""
        (formula,) = self.formulas
        return [Block(formula, self.plan.leaves(formula), self._answers, 1)]

    def accept(self, verdict: Verdict) -> list[int]:
        """The token that was drawn."""
        self.tokens += verdict.tokens
        return verdict.tokens

    def rewind(self, place: int) -> None:
        """Take back the tokens from one on."""
        del self.tokens[place:]


Window: TypeAlias = "PlainWindow | DraftWindow"


def window_of(
    plan: ExecutionPlan,
    most: int,
    ends: Collection[int],
    rooms: Mapping[Term, int],
    steered: Callable[[Sequence[int]], bool] | None = None,
) -> Window:
    """The plain window of a plan that drafts nothing, and the draft window of any other."""
    if plan.drafts or plan.sizes != (1,):
        return DraftWindow(plan, most, ends, rooms, steered)
    return PlainWindow(plan, steered)
