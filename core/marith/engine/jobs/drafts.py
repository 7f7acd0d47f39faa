"""Who drafts for a text: the scorers that propose tokens outright, and those of drafting models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from marith.engine.prepare import Prepared
from marith.formula.tree.terms import Term
from marith.scoring.scorer import Proposal, Proposer, Scorer, Span
from marith.speculation.window import DraftWindow

PROPOSED = "proposed"  # the source of what a plan has proposed outright


class Drafts:
    """A text whose tokens are drafted, as the controller sees it."""

    def __init__(self, window: DraftWindow, prepared: Prepared) -> None:
        self.window = window
        self._prepared = prepared

    @property
    def begin(self) -> bool:
        """Whether a new round begins, whose length is to be chosen; the prompt is read first."""
        read = len(self.window.tokens) > len(self._prepared.prefix)
        return self._prepared.plan.adapts and self.window.idle and read

    def proposals(self, most: int) -> Iterator[Sequence[Proposal]]:
        """What each proposer takes for the next tokens."""
        prepared, tokens = self._prepared, self.window.tokens
        for term in self.window.proposers:
            scorer = prepared.scorers[term]
            assert isinstance(scorer, Proposer)
            lane, reading = prepared.lanes[term], prepared.readings[term]
            span = Span(term, lane, reading, tokens, salt=prepared.salt)
            yield scorer.propose(span, most)

    def scorer_of(self, term: Term) -> Scorer:
        """What evaluates a term."""
        return self._prepared.scorers[term]

    def propose(self) -> None:
        """Propose what costs nothing, by the first proposer that has something to propose.

        Where lengths adapt, the controller has done so.
        """
        if self._prepared.plan.adapts:
            return
        while most := self.window.room_to_propose():
            proposed: Sequence[Proposal] = next(filter(None, self.proposals(most)), [])
            self.window.propose(
                [proposal.token for proposal in proposed], [PROPOSED] * len(proposed)
            )
