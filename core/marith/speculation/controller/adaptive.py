"""Speculation that adapts: how much to draft now, from what passes cost and which drafts stood."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeAlias
from weakref import WeakKeyDictionary, ref

from marith.formula.tree.terms import Classifier, Term
from marith.request.plan import MOST
from marith.speculation.controller.acceptance import Acceptance, confidence_bucket
from marith.speculation.controller.draft_length import Explorer, Offer, lengths, model_length
from marith.speculation.controller.latency import PassTimes
from marith.speculation.cost_model import expected_tokens
from marith.speculation.window import MODEL, DraftWindow

LONGEST = 3  # rounds for which a text is not looked at, after as many that drafted nothing


class Proposed(Protocol):
    """A token that may follow, and how sure (in (0, 1)) a context of so many tokens is of it."""

    @property
    def token(self) -> int:
        """Its number."""
        ...

    @property
    def confidence(self) -> float:
        """The share of the context's tokens that it was."""
        ...

    @property
    def context(self) -> int:
        """How many tokens before it were matched."""
        ...


class Reading(Protocol):
    """A scorer, as far as its time is measured."""

    @property
    def tokens_read(self) -> int:
        """How many tokens a model has read in all passes."""
        ...


_Scorers: TypeAlias = "frozenset[ref[Reading]]"


class Drafting(Protocol):
    """A text whose drafts' lengths are chosen while it is generated."""

    window: DraftWindow

    def proposals(self, most: int) -> Iterator[Sequence[Proposed]]:
        """What each proposer proposes next."""
        ...

    def scorer_of(self, term: Term) -> Reading:
        """What evaluates a term."""
        ...


@dataclass(frozen=True, slots=True)
class Draft:
    """What may be proposed outright: tokens, where each is from, and the chance that it stands."""

    tokens: Sequence[int] = ()
    sources: Sequence[Hashable] = ()
    chances: Sequence[float] = ()

    @property
    def gain(self) -> float:
        """How many of them are expected to stand, each only if those before it do."""
        made, reached = 0.0, 1.0
        for chance in self.chances:
            reached *= chance
            made += reached
        return made


@dataclass(frozen=True, slots=True)
class Round:
    """The next pass: its tokens without drafts, what passes cost, how many texts models draft."""

    rows: int
    cost: Callable[[int], float]
    alike: int


class Controller:
    """Chooses the lengths of least expected time per token for every round of every text.

    Keeps state for one engine: what a round costs by how many tokens it computes, measured for
    each set of scorers that take part, and for each formula how many of which drafts stood, of
    those evaluated; for each text, for how many rounds it is left alone. Changes what a text
    costs, never the text's distribution. `times` begins what is known of a set of scorers.
    """

    def __init__(self, times: Callable[[], PassTimes] = PassTimes) -> None:
        self._begin = times
        self._times: dict[_Scorers, PassTimes] = {}
        self._stood = Acceptance()
        self._explorer = Explorer()
        self._rests: WeakKeyDictionary[DraftWindow, _Rest] = WeakKeyDictionary()

    def plan(
        self, texts: Sequence[Drafting], scorers: Iterable[Reading], rows: int, made: int
    ) -> None:
        """Choose how much each text drafts before the next verification, and propose what is free.

        The next pass, of `scorers`, computes `rows` tokens without drafts and makes `made`.
        """
        cost = self._cost(frozenset(map(ref, scorers)), rows) if texts else None
        if cost is None:
            for text in texts:
                text.window.draft(0)
            return
        round_ = Round(rows, cost, alike=sum(bool(text.window.models) for text in texts))
        free: list[tuple[Drafting, Draft]] = []
        for text in texts:
            if self._rest_of(text).over():
                draft, length = self._proposed(text), self._model_length(text, round_)
                if self._is_better(text, length, draft, round_):
                    text.window.draft(length, by_models=True)
                else:
                    free.append((text, draft))
            else:
                text.window.draft(0)
        offers = [Offer(len(text.window.plan.terms), draft.chances) for text, draft in free]
        for (text, draft), length in zip(free, lengths(offers, rows, made, cost), strict=True):
            self._propose(text, draft, length)
            self._rest_of(text).note(text.window.idle)

    @contextmanager
    def timed(self, scorers: Sequence[Reading], judged: int) -> Iterator[None]:
        """Time a round of these scorers, which judge so many positions and read what they read."""
        before, start = _tokens_read(scorers), time.perf_counter()
        yield
        tokens = _tokens_read(scorers) - before + judged
        if tokens:
            times = self._of(frozenset(map(ref, scorers)))
            times.note(tokens, time.perf_counter() - start)

    def learn(self, window: DraftWindow) -> None:
        """Take in which drafted tokens stood."""
        for source, overlap in window.seen:
            self._stood.note((_key(window), source), overlap)
        window.seen.clear()

    def _proposed(self, text: Drafting) -> Draft:
        """What is likeliest to stand for long of all that can be proposed."""
        best, key = Draft(), _key(text.window)
        for i, proposals in enumerate(text.proposals(min(MOST - 1, text.window.text.room))):
            sources = [(i, each.context, confidence_bucket(each.confidence)) for each in proposals]
            chances = [self._stood.of((key, source)) for source in sources]
            draft = Draft([each.token for each in proposals], sources, chances)
            best = max(best, draft, key=lambda draft: draft.gain)
        return best

    def _propose(self, text: Drafting, draft: Draft, length: int) -> None:
        if draft.tokens:
            length = self._explorer.length((_key(text.window), draft.sources[0]), length)
        text.window.draft(len(draft.tokens[:length]))
        if draft.tokens:
            text.window.propose(draft.tokens[:length], draft.sources[:length])

    def _model_length(self, text: Drafting, round_: Round) -> int:
        """How many tokens its drafting models should draft, if all alike do so; 0 for none."""
        window = text.window
        room = min(MOST - 1, window.text.room)
        if not window.models or room < 1:
            return 0
        draft_cost = self._draft_cost(text, round_.alike)
        if draft_cost is None:
            return 1  # once, to learn what it costs
        each = round_.alike * len(window.plan.terms)
        key = _key(window), MODEL
        cost = round_.cost
        length = model_length(
            self._stood.of(key), room, draft_cost, lambda n: cost(round_.rows + n * each)
        )
        return self._explorer.length(key, length)

    def _is_better(self, text: Drafting, length: int, free: Draft, round_: Round) -> bool:
        """Whether a model's draft makes more tokens a second than what was proposed."""
        if not length:
            return False
        each = round_.alike * len(text.window.plan.terms)
        made = expected_tokens(self._stood.of((_key(text.window), MODEL)), length)
        spent = length * (self._draft_cost(text, round_.alike) or 0.0)
        rate = made / (spent + round_.cost(round_.rows + length * each))
        return rate >= (1 + free.gain) / round_.cost(round_.rows + len(free.chances) * each)

    def _rest_of(self, text: Drafting) -> _Rest:
        return self._rests.setdefault(text.window, _Rest())

    def _of(self, scorers: _Scorers) -> PassTimes:
        if scorers not in self._times:
            self._times = {key: times for key, times in self._times.items() if _alive(key)}
            self._times[scorers] = self._begin()
        return self._times[scorers]

    def _draft_cost(self, text: Drafting, alike: int) -> float | None:
        """What a round of a text's drafts costs where so many draft alike; None if never timed."""
        models = text.window.models
        times = self._of(frozenset(ref(text.scorer_of(term)) for term in models))
        return times.cost(alike * len(models))

    def _cost(self, scorers: _Scorers, tokens: int) -> Callable[[int], float] | None:
        """What a round costs from so few tokens on; None before one as small has been measured."""
        times = self._of(scorers)
        if times.least is None or times.least > tokens:
            return None
        return lambda tokens: times.cost(tokens) or 0.0


@dataclass(slots=True)
class _Rest:
    """For how many rounds a text is left alone where nothing was drafted, longer each time."""

    length: int = 0
    left: int = 0

    def over(self) -> bool:
        self.left -= 1
        return self.left < 0

    def note(self, nothing: bool) -> None:
        self.length = min(self.length + 1, LONGEST) if nothing else 0
        self.left = self.length


def _key(window: DraftWindow) -> int:
    """Texts of one formula have drafts that stand alike."""
    return hash(window.plan.formula)


def _alive(scorers: _Scorers) -> bool:
    return all(scorer() is not None for scorer in scorers)


def _tokens_read(scorers: Sequence[Reading]) -> int:
    return sum(scorer.tokens_read for scorer in scorers)


def judged(counts: Mapping[Term, int]) -> int:
    """How many positions classifiers are asked about."""
    return sum(count for term, count in counts.items() if isinstance(term, Classifier))
