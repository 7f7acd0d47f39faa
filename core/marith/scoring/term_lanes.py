"""The lanes of one request: which scorer computes a term, what it reads, and who shares a lane."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from marith.formula.tree.terms import Prompted, Term
from marith.scoring.lane_text import LaneText
from marith.scoring.scorer import Demand, Reading, Scorer, Span


@dataclass(frozen=True, slots=True)
class TermLanes:
    """The scorer, the reading and the lane of each term of one request.

    A lane is the key under which a scorer caches what it has read. Terms that read the same text
    share a lane. Requests with the same `salt` share cached prefixes. `loaded` has what each scorer
    loaded for a term, such as an adapter. The text keeps it, even if the files are written again.
    """

    scorers: Mapping[Term, Scorer]
    readings: Mapping[Term, Reading]
    salt: str | None
    loaded: Mapping[Term, object]
    lanes: Mapping[Term, Hashable] = field(init=False)

    def __post_init__(self) -> None:
        own: dict[Term, Hashable] = defaultdict(object)  # a lane belongs to one job
        lanes = {term: own[_read_by(term)] for term in self.scorers}
        object.__setattr__(self, "lanes", lanes)

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
        lane, reading = self.lanes[term], self.readings[term]
        loaded = self.loaded[term]
        return Span(term, lane, reading, text, count, candidates, self.salt, loaded)

    def lane_texts(self, more: int) -> list[tuple[Scorer, LaneText]]:
        """Return what each lane will hold when `more` tokens follow the prompt."""
        texts = []
        for term in {self.lanes[term]: term for term in self.readings}.values():
            scorer = self.scorers[term]
            demand = Demand(term, self.readings[term], more, self.salt)
            if (text := scorer.lane_text(demand)) is not None:
                texts.append((scorer, text))
        return texts

    def release(self) -> None:
        """Free all lanes."""
        for term, scorer in self.scorers.items():
            # A scorer frees the lane first, so an error after that does no harm.
            with suppress(BaseException):
                scorer.release(self.lanes[term])


def _read_by(term: Term) -> Term:
    """Return the term that the lane belongs to: an early exit uses the lane of its model."""
    if isinstance(term, Prompted) and term.exit_layer is not None:
        return replace(term, exit_layer=None)
    return term
