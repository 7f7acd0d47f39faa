"""The lanes of one request: which scorer computes a term, and which terms share a lane."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from marith.formula.tree.terms import Prompted, Term
from marith.scoring.lane_text import LaneText
from marith.scoring.passes.questions import Reading, RequestLane, Span
from marith.scoring.scorer import Scorer
from marith.tensor_rows import Row


@dataclass(frozen=True, slots=True)
class TermLanes:
    """The scorer and the lane of each term of one request.

    Terms that read the same text share a lane: an early exit has the lane of its model.
    """

    scorers: Mapping[Term, Scorer]
    lanes: Mapping[Term, RequestLane]

    @classmethod
    def of(
        cls,
        scorers: Mapping[Term, Scorer],
        readings: Mapping[Term, Reading],
        loaded: Mapping[Term, object],
        salt: str | None,
    ) -> TermLanes:
        """Open the lanes of the terms in `readings`, which has the prompt as each term reads it.

        `loaded` has the result of `Scorer.load` for each term. Requests with the same `salt` share
        cached prefixes.
        """
        by_text: dict[Term, list[Term]] = defaultdict(list)
        for term in readings:
            by_text[_read_by(term)].append(term)
        lanes = {
            text: scorers[terms[0]].open(terms, readings[terms[0]], salt, loaded[terms[0]])
            for text, terms in by_text.items()
        }
        # Statistics list the terms in the order of the formula, which `readings` has.
        return cls(scorers, {term: lanes[_read_by(term)] for term in readings})

    @property
    def readings(self) -> dict[Term, Reading]:
        """The prompt as each term reads it."""
        return {term: lane.reading for term, lane in self.lanes.items()}

    def span(
        self,
        term: Term,
        text: Sequence[int],
        count: int = 1,
        candidates: Sequence[Sequence[int]] | None = None,
    ) -> Span:
        """Return the last `count` positions of a text, to be scored by a term.

        For a classifier, `candidates` has the tokens to judge at each position.
        """
        return Span(term, self.lanes[term], text, count, candidates)

    def lane_texts(self, more: int) -> list[tuple[Scorer, LaneText]]:
        """Return the text of each lane with `more` tokens after the prompt, and its scorer."""
        scorers = {lane: self.scorers[term] for term, lane in self.lanes.items()}
        texts = [(scorer, scorer.lane_text(lane, more)) for lane, scorer in scorers.items()]
        return [(scorer, text) for scorer, text in texts if text is not None]

    def require_numbers(self, rows: Mapping[Term, Sequence[Row]]) -> None:
        """Raise ModelError if a row of a term is NaN, and drop what is cached for its model."""
        for term, own in rows.items():
            self.scorers[term].require_numbers(own)

    def forget(self) -> None:
        """Drop what is cached for the models of all terms, for all texts."""
        for scorer in {*self.scorers.values()}:
            scorer.forget()

    def release(self) -> None:
        """Free all lanes."""
        for term, lane in self.lanes.items():
            # A scorer frees the lane first, so a later error does no harm.
            with suppress(BaseException):
                self.scorers[term].release(lane)


def _read_by(term: Term) -> Term:
    """Return the term whose lane this term shares: an early exit shares the lane of its model."""
    if isinstance(term, Prompted) and term.exit_layer is not None:
        return replace(term, exit_layer=None)
    return term
