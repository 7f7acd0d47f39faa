"""What the engine runs: something that asks for composed log-probabilities until it is done."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from marith.engine.jobs.drafts import Drafts
from marith.engine.prepare import Prepared
from marith.formula.tree.terms import Term
from marith.scoring.scorer import Scored
from marith.speculation.verify import Check, Verdict
from marith.speculation.window import Block
from marith.tensor_rows import Row


class Job(Protocol):
    """Wants terms evaluated, receives them, checks what is composed of them, accepts tokens."""

    prepared: Prepared
    drafts: Drafts | None  # None where nobody drafts

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits for it any more."""
        ...

    @property
    def done(self) -> bool:
        """Whether it needs no further step."""
        ...

    def wanted(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        """A continuation, and at how many of its last positions each term is to be evaluated."""
        ...

    def rows(
        self, terms: Collection[Term], count: int, answers: Mapping[Term, Scored]
    ) -> Mapping[Term, Sequence[Row]]:
        """Of the last `count` positions, one row each; `answers` are not received yet."""
        ...

    def receive(self, answers: Mapping[Term, Scored]) -> Sequence[Block]:
        """Take in what was wanted; what is to be composed of it."""
        ...

    def check(self, rows: Sequence[Row]) -> Check | None:
        """What to verify of the composed log-probabilities [vocab] of all blocks' positions."""
        ...

    def accept(self, verdict: Verdict) -> None:
        """Take the tokens that stand."""
        ...

    def fail(self, error: BaseException) -> None:
        """Tell the caller, and be done. Any thread may call it."""
        ...
