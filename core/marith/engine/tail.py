"""The tokens that not every term has checked, and what the terms have said of them.

Algorithm 2 of the paper, position by position: each has its itinerary, along which lemma 1 leads
from the first part of the formula that could be said to the whole one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from itertools import groupby

import torch
from torch import Tensor

from marith.decoding.speculation import Verdict
from marith.engine.itinerary import Itinerary
from marith.engine.positions import MODEL, Block, Checked, Pending
from marith.engine.stages import Stages
from marith.formula.nodes import Formula
from marith.formula.terms import Term


class Tail:
    """A text in the making: `final` tokens that are sampled, and others that are pending.

    Keeps state, for one thread. `most` bounds the tokens, `ends` are those that end a text,
    `rooms` how many tokens the contexts of drafts hold; `steered` says after which texts the
    formula speaks, and not the one that stands aside for it.
    """

    def __init__(
        self,
        stages: Stages,
        most: int,
        ends: Collection[int],
        rooms: Mapping[Term, int],
        steered: Callable[[Sequence[int]], bool] | None = None,
    ) -> None:
        self.stages = stages
        self._steered = steered
        self.tokens: list[int] = []
        self.itinerary = Itinerary(stages, rooms)
        self.drafted = self.accepted = 0
        self.checks: dict[Formula, Checked] = {}
        self.seen: list[tuple[Hashable, float]] = []
        self._pending: list[Pending] = []
        self._said = self.itinerary.said
        self._most, self._ends = most, ends
        self._silent = -1  # where those who guess had nothing to say
        self._trial: list[tuple[int, Formula]] = []

    @property
    def guessers(self) -> list[Term]:
        """The drafts that propose tokens outright."""
        return self.itinerary.guessers

    @property
    def final(self) -> int:
        """How many tokens every term has checked."""
        return len(self.tokens) - len(self._pending)

    @property
    def closed(self) -> bool:
        """Whether the last token, though pending, leaves no place for another."""
        return bool(self._pending) and (
            self.tokens[-1] in self._ends or len(self.tokens) >= self._most
        )

    @property
    def end(self) -> int:
        """One past the last position that terms can speak of."""
        return len(self.tokens) + (not self.closed)

    @property
    def room(self) -> int:
        """How many tokens may be drafted, with a place left for one more."""
        return self._most - 1 - len(self.tokens)

    @property
    def idle(self) -> bool:
        """Whether every token is final, and nothing has been said of the next."""
        return not self._pending and not self.itinerary.unsettled

    @property
    def models(self) -> list[Term]:
        """The drafts that would now speak of the next position, if the terms did not."""
        rooms, place = self.itinerary.rooms, len(self.tokens)
        able = {t for t in self.stages.drafts if place < rooms.get(t, math.inf)}
        part = self.stages.part(able.difference(self.guessers))
        return [] if part is None else self.stages.leaves(part)

    def asks(self) -> tuple[Sequence[int], dict[Term, int]]:
        """What terms should speak of now: a text, and how many of its last positions each."""
        if self.itinerary.unsettled:
            return self.tokens, {}  # what has been said is settled first
        text = self.tokens[:-1] if self.closed else self.tokens
        due = self.itinerary.due(len(self.tokens), self.end)
        return text, {term: self.end - self._said[term].end for term in due}

    def room_to_guess(self) -> int:
        """How many tokens may be proposed before another term falls due."""
        place, itinerary = len(self.tokens), self.itinerary
        if not self.guessers or itinerary.unsettled or self.closed or place == self._silent:
            return 0
        others = (t for t in itinerary.waiting(place, self.end) if t not in self.guessers)
        dues = [itinerary.due_at(term) for term in others]
        return max(0, min([*dues, place + self.room]) - place)

    def propose(self, tokens: Sequence[int], sources: Sequence[Hashable]) -> None:
        """Append tokens, drawn from nothing; without any, who guesses is not asked here again."""
        if not tokens:
            self._silent = len(self.tokens)
        for token, source in zip(tokens, sources, strict=True):
            if not self.closed:
                self._append(token, None, source)

    def lag(self, length: int, by_models: bool = False) -> None:
        """All terms check after so many tokens, which models draft, or those who guess alone."""
        every = self.itinerary.every
        every |= dict.fromkeys(self.stages.drafts, 1 if by_models else length + 1)
        every |= dict.fromkeys(self.stages.terms, length + 1)

    def hear(self, answers: Mapping[Term, Tensor]) -> None:
        """The log-probabilities [count, vocab] that were asked for."""
        for term, rows in answers.items():
            self._said[term].rows += rows.unbind()

    def spoken(
        self, terms: Iterable[Term], count: int, heard: Mapping[Term, Tensor]
    ) -> dict[Term, Tensor]:
        """What terms have said of the last `count` positions, each [count, vocab].

        `heard` is what some have just said, and is not taken in yet.
        """
        said = {t: [*self._said[t].rows, *heard.get(t, ())] for t in terms}
        return {term: torch.stack(rows[-count:]) for term, rows in said.items()}

    def blocks(self) -> list[Block]:
        """What is to be composed, so that the terms due soonest can be settled; may be nothing."""
        group, last = self.itinerary.group()
        low = min((self._said[term].applied for term in group), default=0)
        places = range(low, self.end if last else len(self.tokens))
        parts = [(at, part) for at in places if (part := self._part_at(at, group))]
        self._trial = [(at, self._speaker(at, part)) for at, part in parts]
        blocks = []
        for part, run in groupby(self._trial, key=lambda item: item[1]):
            at = [place for place, _ in run]
            blocks.append(Block(part, {t: self._rows(t, at) for t in self.stages.leaves(part)}))
        if not blocks:
            self._apply(group)
        return blocks

    def stands(self) -> list[Pending | None]:
        """What stands at each composed position; None where a token is yet to be drawn."""
        return [self._pending_at(place) for place, _ in self._trial]

    @property
    def places(self) -> list[int]:
        """The composed positions."""
        return [place for place, _ in self._trial]

    @property
    def parts(self) -> list[Formula]:
        """What is said of each composed position."""
        return [part for _, part in self._trial]

    def settle(self, verdict: Verdict) -> list[int]:
        """Take what stands, discard what follows a token that does not; the tokens now final."""
        group, _ = self.itinerary.group()
        known = self.final
        self._apply(group)
        told = zip(self._trial, verdict.tokens, verdict.overlaps, verdict.truths, strict=True)
        for (place, part), token, overlap, truth in told:
            stood = self._pending_at(place)
            if stood is None:
                self._append(token, truth, self._source(part))
                break
            self._note(part, stood, stood.token == token, overlap)
            stood.guess = truth
            if stood.token != token:
                self._replace(place, token, truth, self._source(part))
                break
        return self._finish(known)

    def rewind(self, place: int) -> None:
        """Take back the tokens from a final one on, and all that was said of them."""
        del self.tokens[place:], self._pending[:], self._trial[:]
        for said in self._said.values():
            said.cut(place)
        self._silent = -1

    def _part_at(self, place: int, group: Sequence[Term]) -> Formula | None:
        """What can newly be said of a position now that `group` has spoken."""
        if place == len(self.tokens):
            return self.stages.part(self.itinerary.speaking(place))
        before = [term for term, said in self._said.items() if said.applied > place]
        part = self.stages.part({*before, *group})
        return None if part == self.stages.part(before) else part

    def _speaker(self, place: int, part: Formula) -> Formula:
        """Who speaks of a place once all have been heard: the formula, or what stands aside."""
        aside = self.stages.aside
        if aside is None or self._steered is None or part != self.stages.whole:
            return part
        return part if self._steered(self.tokens[:place]) else aside

    def _rows(self, term: Term, places: Sequence[int]) -> Tensor:
        said = self._said[term]
        return torch.stack([said.rows[place - said.first] for place in places])

    def _pending_at(self, place: int) -> Pending | None:
        at = place - self.final
        return self._pending[at] if at < len(self._pending) else None

    def _append(self, token: int, guess: Tensor | None, source: Hashable | None) -> None:
        self.drafted += source is not None
        self.tokens.append(token)
        self._pending.append(Pending(token, guess, source))

    def _source(self, part: Formula) -> Hashable | None:
        return None if part in (self.stages.whole, self.stages.aside) else MODEL

    def _replace(self, place: int, token: int, truth: Tensor, source: Hashable | None) -> None:
        """Another token stands here; what followed the old one is void, whoever said it."""
        del self._pending[place - self.final :], self.tokens[place:]
        for said in self._said.values():
            said.cut(place + 1)
        self._silent = -1
        self._append(token, truth, source)

    def _apply(self, group: Sequence[Term]) -> None:
        for term in group:
            self._said[term].applied = self._said[term].end

    def _note(self, part: Formula, pending: Pending, stood: bool, overlap: float) -> None:
        checked = self.checks.setdefault(part, Checked())
        checked.evaluated += 1
        checked.stood += stood
        checked.overlap += overlap
        self.seen.append((pending.source, overlap))

    def _finish(self, known: int) -> list[int]:
        """Let go of what is final."""
        end = min(self._said[term].applied for term in self.stages.terms)
        end = min(end, len(self.tokens))
        for done in self._pending[: end - known]:
            self.accepted += done.source is not None
        del self._pending[: end - known]
        for said in self._said.values():
            said.drop(end)
        return self.tokens[known:end]
