"""In which order the terms speak of a position: fixed before a token stands there.

A term falls due once it has as many positions to speak of as it is asked for at a time. Those due
first check first, those due at once check together. All of this hangs on what the terms have
spoken of, and never on the token drawn: an order that differed by token would favour some of them
(decision 13).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from marith.engine.positions import Said
from marith.engine.stages import Stages
from marith.formula.checking import leaves
from marith.formula.nodes import Formula
from marith.formula.partial import drafts, part, superseding
from marith.formula.terms import Classifier, NGram, Term


@dataclass(slots=True)
class Itinerary:
    """Who is due where, from what each has said.

    `every` is how many positions each is asked for at a time, `rooms` how many tokens the
    contexts of drafts hold.
    """

    stages: Stages
    rooms: Mapping[Term, int]
    every: dict[Term, int] = field(init=False)
    said: dict[Term, Said] = field(init=False)
    guessers: list[Term] = field(init=False)
    _judged: dict[Term, list[Classifier]] = field(init=False)
    _after: dict[Term, list[tuple[list[Term], bool]]] = field(init=False)

    def __post_init__(self) -> None:
        stages, rooms = self.stages, self.rooms
        self.every = {term: stages.every.get(term, 1) for term in stages.voices}
        self.said = {term: Said() for term in stages.voices}
        alone = (t for t in stages.drafts if isinstance(t, NGram) and stages.part((t,)) == t)
        self.guessers = [term for term in alone if rooms.get(term, 1)]
        self._after = {
            draft: [_voices(of) for of in superseding(stages.formula, draft)]
            for draft in stages.drafts
        }
        self._judged = {term: [] for term in stages.voices}
        for judge in stages.judges:
            for guide in stages.leaves(stages.guide_of(judge)):
                self._judged[guide].append(judge)

    @property
    def unsettled(self) -> bool:
        """Whether something has been said that has not been made use of."""
        return any(one.end > one.applied for one in self.said.values())

    def due_at(self, term: Term) -> int:
        """The position by which a term falls due.

        Who guides a classifier does so no later than the classifier; who guesses outright speaks
        as a distribution only together with the first term.
        """
        if term in self.guessers:
            return min(self.due_at(other) for other in self.stages.terms)
        return min(map(self._own, (term, *self._judged[term])))

    def speaking(self, place: int) -> list[Term]:
        """Who has spoken of a position."""
        return [term for term, said in self.said.items() if said.end > place]

    def waiting(self, place: int, end: int) -> list[Term]:
        """Who has yet to speak before `end`, those due first in front; `place` is the next token's.

        A draft that falls due no sooner than what supersedes it would never be heard.
        """
        terms = [term for term in self.stages.terms if self.said[term].end < end]
        able = [
            draft
            for draft in self.stages.drafts
            if self.said[draft].end < end
            and (at := self.due_at(draft)) < self._heard_until(draft)
            and max(place, at) < self.rooms.get(draft, math.inf)
        ]
        return sorted([*terms, *able], key=self.due_at)

    def due(self, place: int, end: int) -> list[Term]:
        """Who speaks now: who is due by `place`, or as many as it takes to say something of it.

        Where no other token can follow, `end` being `place`, all who wait.
        """
        waiting = self.waiting(place, end)
        if end == place:
            return waiting
        due: list[Term] = []
        latest = place
        for term in waiting:
            if self.due_at(term) > latest:
                if self.stages.part({*self.speaking(place), *due}) is not None:
                    break
                latest = self.due_at(term)
            due.append(term)
        return due

    def group(self) -> tuple[list[Term], bool]:
        """Who has spoken and checks next; whether nobody checks after them."""
        said = [term for term, one in self.said.items() if one.end > one.applied]
        soonest = min(map(self.due_at, said), default=0)
        group = [term for term in said if self.due_at(term) == soonest]
        return group, len(group) == len(said)

    def _heard_until(self, draft: Term) -> int:
        """Where all that a draft drafts for has something to say, at the latest.

        With the first of its terms, where each could speak for it alone; else with the last, since
        something may be said with some of them and nothing with some more.
        """
        return max(
            (min if alone else max)(map(self.due_at, voices))
            for voices, alone in self._after[draft]
        )

    def _own(self, term: Term) -> int:
        return self.said[term].applied + self.every[term] - 1


def _voices(of: Formula) -> tuple[list[Term], bool]:
    """The terms and drafts of a formula that have weight; whether each could speak for it alone."""
    voices = [t for t in (*leaves(of), *drafts(of)) if not isinstance(t, Classifier)]
    return voices, all(part(of, (voice,)) is not None for voice in voices)
