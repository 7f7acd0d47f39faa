"""The protocol of jobs: what a step asks of each request that runs."""

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
    """A request while it runs.

    In a step, a job names the terms and the positions that it wants, receives their rows, returns a
    check of the composed rows, and accepts the verdict. A job that is paused names the same
    positions again when it goes on.
    """

    prepared: Prepared
    is_plain: bool  # whether the job is a plain text: see `PlainTexts`
    drafts: Drafts | None  # None if nothing is drafted
    paused: int  # how often the job was paused

    @property
    def tokens_held(self) -> int:
        """The most tokens after the prompt that a lane of the job may hold after the next step."""
        ...

    @property
    def abandoned(self) -> bool:
        """True if nobody waits for the job any more."""
        ...

    @property
    def done(self) -> bool:
        """True if the job needs no further step."""
        ...

    def wanted(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        """Return a continuation, and for each term the number of trailing positions to evaluate."""
        ...

    def rows(
        self, terms: Collection[Term], count: int, answers: Mapping[Term, Answer]
    ) -> Mapping[Term, Sequence[Row]]:
        """Return the rows of `terms` at the last `count` positions, one for each position.

        Rows that the job has not received yet are taken from `answers`.
        """
        ...

    def receive(self, answers: Mapping[Term, Answer]) -> Block | None:
        """Receive the evaluated terms, and return the block to compose, or None."""
        ...

    def check(self, rows: Sequence[Row]) -> Check | None:
        """Return the check of the composed rows [vocab], or None if there is nothing to verify."""
        ...

    def accept(self, verdict: Verdict) -> None:
        """Take the tokens that verification has chosen."""
        ...

    def convert(self) -> None:
        """Convert the token that the last step has left to text, and pass the text to the caller.

        An error ends the job. Only plain texts leave tokens to the next step: see `PlainTexts`.
        """
        ...

    def fail(self, error: BaseException) -> None:
        """End with an error, and pass it to the caller. Safe in any thread."""
        ...
