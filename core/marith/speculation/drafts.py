"""The drafts of one text: when they are due, and the tokens that proposers expect next."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator, Sequence

from marith.formula.tree.terms import Term
from marith.scoring.scorer import Proposer, Scorer
from marith.scoring.term_lanes import TermLanes
from marith.speculation.window import DraftWindow

_CONFIDENCES = 0.25, 0.5, 0.75, 0.9, 0.97, 0.99


class Drafts:
    """The drafts of one text. Keeps state.

    When this object is made, `window` holds only the prefix of the text. `lanes` are the lanes of
    the text's request. Under "auto", after a round without a draft, the controller does not
    consider the text for `rounds` rounds. `left` is the number of these rounds that remain.
    """

    def __init__(self, window: DraftWindow, lanes: TermLanes) -> None:
        self.window = window
        self.rounds = self.left = 0
        self._lanes = lanes
        self._start = len(window.tokens)

    def due(self) -> bool:
        """Return True if drafts are to be chosen in this round, and count the round.

        Nothing is drafted before the prompt has been read, or in rounds for which the controller
        has paused drafting.
        """
        if self.left:
            self.left -= 1
            return False
        window = self.window
        return window.plan.chooses_lengths and len(window.tokens) > self._start and window.idle

    def proposals(self, limit: int) -> Iterator[tuple[Sequence[int], Sequence[Hashable]]]:
        """Yield, for each proposer, the tokens that it expects next, and the source of each token.

        Acceptance is measured for each source. A source identifies a proposer, the length of the
        context that it has recognised, and the range in which its confidence lies.
        """
        for index, term in enumerate(self.window.proposers):
            scorer = self._lanes.scorers[term]
            assert isinstance(scorer, Proposer)
            proposed = scorer.propose(self._lanes.span(term, self.window.tokens), limit)
            sources = [
                (index, p.context, bisect_right(_CONFIDENCES, p.confidence)) for p in proposed
            ]
            yield [proposal.token for proposal in proposed], sources

    def scorer_of(self, term: Term) -> Scorer:
        """Return the scorer of a term."""
        return self._lanes.scorers[term]

    def propose(self) -> None:
        """Append tokens of the first proposer that has any, until a stage is due."""
        while limit := self.window.room_to_propose():
            proposals = (proposed for proposed in self.proposals(limit) if proposed[0])
            self.window.propose(*next(proposals, ([], [])))
