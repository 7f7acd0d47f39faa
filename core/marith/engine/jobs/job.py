"""What the engine runs: jobs, which ask for composed log-probabilities, and who drafts for them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Protocol

from marith.engine.prepare import Prepared
from marith.formula.tree.terms import Term
from marith.scoring.scorer import Proposer, Scored, Scorer
from marith.speculation.verify import Check, Verdict
from marith.speculation.window import Block, DraftWindow
from marith.tensor_rows import Row

_CONFIDENCES = 0.25, 0.5, 0.75, 0.9, 0.97, 0.99


class Drafts:
    """A text whose tokens are drafted; under "auto" it is a `Drafting` of the controller."""

    def __init__(self, window: DraftWindow, prepared: Prepared) -> None:
        self.window = window
        self.rounds = self.left = 0
        self._prepared = prepared

    def due(self) -> bool:
        """Return whether a draft is to be chosen in this round, and count the round.

        None is chosen before the prompt has been read, and while the text is left alone.
        """
        if self.left:
            self.left -= 1
            return False
        prepared, window = self._prepared, self.window
        return prepared.plan.adapts and len(window.tokens) > len(prepared.prefix) and window.idle

    def proposals(self, limit: int) -> Iterator[tuple[Sequence[int], Sequence[Hashable]]]:
        """Return the next tokens that each proposer expects, and the source of each token.

        Tokens of a proposer have one source if the proposer is about as sure of them, after
        contexts of one length.
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
        """Return what evaluates a term."""
        return self._prepared.lanes.scorers[term]

    def propose(self) -> None:
        """Propose what costs nothing, by the first proposer that has something to propose."""
        while limit := self.window.room_to_propose():
            proposals = (proposed for proposed in self.proposals(limit) if proposed[0])
            self.window.propose(*next(proposals, ([], [])))


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
