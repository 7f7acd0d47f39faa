"""Jobs, which ask for composed log-probabilities, and the drafts of a job."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Protocol

from marith.decoding.blocks import Block
from marith.engine.prepare import Prepared
from marith.formula.tree.terms import Term
from marith.scoring.scorer import Proposer, Scored, Scorer
from marith.speculation.verify import Check, Verdict
from marith.speculation.window import DraftWindow
from marith.tensor_rows import Row

_CONFIDENCES = 0.25, 0.5, 0.75, 0.9, 0.97, 0.99


class Drafts:
    """The drafts of one text. Under "auto" they are a `Drafting` of the controller."""

    def __init__(self, window: DraftWindow, prepared: Prepared) -> None:
        self.window = window
        self.rounds = self.left = 0
        self._prepared = prepared

    def due(self) -> bool:
        """Return True if drafts are to be chosen in this round, and count the round.

        Nothing is drafted before the prompt has been read, or in rounds for which the controller
        has paused drafting.
        """
        if self.left:
            self.left -= 1
            return False
        prepared, window = self._prepared, self.window
        return prepared.plan.adapts and len(window.tokens) > len(prepared.prefix) and window.idle

    def proposals(self, limit: int) -> Iterator[tuple[Sequence[int], Sequence[Hashable]]]:
        """Yield the next tokens that each proposer expects, and the source of each token.

        Tokens of one proposer have the same source if they follow contexts of the same length with
        similar confidence.
        """
        lanes, tokens = self._prepared.lanes, self.window.tokens
        for index, term in enumerate(self.window.proposers):
            scorer = lanes.scorers[term]
            assert isinstance(scorer, Proposer)
            proposed = scorer.propose(lanes.span(term, tokens), limit)
            sources = [
                (index, p.context, bisect_right(_CONFIDENCES, p.confidence)) for p in proposed
            ]
            yield [proposal.token for proposal in proposed], sources

    def scorer_of(self, term: Term) -> Scorer:
        """Return the scorer of a term."""
        return self._prepared.lanes.scorers[term]

    def propose(self) -> None:
        """Add free proposals: those of the first proposer that has any."""
        while limit := self.window.room_to_propose():
            proposals = (proposed for proposed in self.proposals(limit) if proposed[0])
            self.window.propose(*next(proposals, ([], [])))


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
        self, terms: Collection[Term], count: int, answers: Mapping[Term, Scored]
    ) -> Mapping[Term, Sequence[Row]]:
        """Return one row for each of the last `count` positions; `answers` are not received yet."""
        ...

    def receive(self, answers: Mapping[Term, Scored]) -> Sequence[Block]:
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
