"""Jobs, which ask for composed log-probabilities."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from marith.decoding.blocks import Block
from marith.engine.prepare import Prepared
from marith.formula.tree.terms import Term
from marith.scoring.passes.questions import Answer
from marith.speculation.drafts import Drafts
from marith.speculation.verify import Check, Verdict
from marith.tensor_rows import Row


class Job(Protocol):
    """A job of the engine.

    It asks for terms to be evaluated, receives the results, checks what is composed of them, and
    accepts tokens.
    """

    prepared: Prepared
    drafts: Drafts | None  # None if nothing is drafted

    @property
    def abandoned(self) -> bool:
        """True if nobody waits for the job any more."""
        ...

    @property
    def done(self) -> bool:
        """True if the job needs no further step."""
        ...

    def wanted(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        """Return a continuation, and for each term the number of last positions to evaluate."""
        ...

    def rows(
        self, terms: Collection[Term], count: int, answers: Mapping[Term, Answer]
    ) -> Mapping[Term, Sequence[Row]]:
        """Return one row for each of the last `count` positions; `answers` are not received yet."""
        ...

    def receive(self, answers: Mapping[Term, Answer]) -> Sequence[Block]:
        """Receive the evaluated terms, and return the blocks to compose."""
        ...

    def check(self, rows: Sequence[Row]) -> Check | None:
        """Return what to verify, given composed log-probabilities [vocab] of all positions."""
        ...

    def accept(self, verdict: Verdict) -> None:
        """Take the tokens that were accepted."""
        ...

    def fail(self, error: BaseException) -> None:
        """End with an error, and pass it to the caller. Safe in any thread."""
        ...
