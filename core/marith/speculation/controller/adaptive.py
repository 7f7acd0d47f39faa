"""Chooses how much to draft, from the cost of passes and the acceptance of earlier drafts."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeAlias
from weakref import ref

from marith.formula.tree.terms import Classifier, Term
from marith.request.plan import MOST
from marith.speculation.controller.acceptance import Acceptance, confidence_bucket
from marith.speculation.controller.backoff import Backoff
from marith.speculation.controller.draft_length import Explorer, Offer, lengths, model_length
from marith.speculation.controller.latency import PassTimes
from marith.speculation.cost_model import expected_tokens
from marith.speculation.window import MODEL, DraftWindow


class Proposed(Protocol):
    """A token that a proposer expects next, and its confidence."""

    @property
    def token(self) -> int:
        """The number of the token."""
        ...

    @property
    def confidence(self) -> float:
        """How often this token followed the context, as a share in (0, 1)."""
        ...

    @property
    def context(self) -> int:
        """How many tokens before it the context has."""
        ...


class Reading(Protocol):
    """What the controller needs of a scorer."""

    @property
    def tokens_read(self) -> int:
        """How many tokens the model has read in all passes."""
        ...


_Scorers: TypeAlias = "frozenset[ref[Reading]]"


class Drafting(Protocol):
    """A text for which the length of drafts is chosen while it is generated."""

    window: DraftWindow

    def proposals(self, most: int) -> Iterator[Sequence[Proposed]]:
        """The next tokens that each proposer expects."""
        ...

    def scorer_of(self, term: Term) -> Reading:
        """The scorer of a term."""
        ...


@dataclass(frozen=True, slots=True)
class Draft:
    """Tokens of a proposer, the source of each, and the chance that each is accepted."""

    tokens: Sequence[int] = ()
    sources: Sequence[Hashable] = ()
    chances: Sequence[float] = ()

    @property
    def gain(self) -> float:
        """The expected number of accepted tokens; each needs all before it to be accepted."""
        expected, reached = 0.0, 1.0
        for chance in self.chances:
            reached *= chance
            expected += reached
        return expected


@dataclass(frozen=True, slots=True)
class Round:
    """The next pass.

    It has `rows` tokens without drafts; `cost` is in seconds by tokens; models may draft for
    `alike` of its texts.
    """

    rows: int
    cost: Callable[[int], float]
    alike: int


class Controller:
    """Chooses the lengths of drafts with the least expected time per token, in every round.

    Keeps state for one engine: for each set of scorers, the cost of a round by its tokens; for each
    formula, the acceptance of drafts by source; for each text, in how many rounds it is skipped.
    Changes the cost of a text, never its distribution. `times` makes the record of a new set of
    scorers.
    """

    def __init__(self, times: Callable[[], PassTimes] = PassTimes) -> None:
        self._new_times = times
        self._times: dict[_Scorers, PassTimes] = {}
        self._acceptance = Acceptance()
        self._explorer = Explorer()
        self._backoff = Backoff()

    def plan(
        self,
        texts: Sequence[Drafting],
        scorers: Callable[[], Iterable[Reading]],
        rows: int,
        made: int,
    ) -> None:
        """Choose how much each text drafts before the next verification; append proposed tokens.

        The next pass, of `scorers`, computes `rows` tokens without drafts and makes `made` tokens.
        """
        self._explorer.begin()
        begun, due = time.perf_counter(), list[Drafting]()
        for text in texts:
            if self._backoff.due(text.window):
                due.append(text)
            else:
                text.window.draft(0)
        cost = self._cost(frozenset(map(ref, scorers())), rows) if due else None
        if cost is None:
            for text in due:
                text.window.draft(0)
            return
        self._choose(due, Round(rows, cost, sum(bool(text.window.models) for text in due)), made)
        self._backoff.learn(time.perf_counter() - begun, len(due), len(texts), cost(rows))

    def _choose(self, texts: Sequence[Drafting], round_: Round, made: int) -> None:
        """For the texts of this round."""
        proposals: list[tuple[Drafting, Draft]] = []  # which cost no pass to draft
        for text in texts:
            draft, length = self._proposed(text), self._model_length(text, round_)
            if self._is_better(text, length, draft, round_):
                text.window.draft(length, by_models=True)
            else:
                proposals.append((text, draft))
        offers = [Offer(len(text.window.plan.terms), draft.chances) for text, draft in proposals]
        chosen = lengths(offers, round_.rows, made, round_.cost)
        for (text, draft), length in zip(proposals, chosen, strict=True):
            self._propose(text, draft, length)
            self._backoff.note(text.window, drafted=not text.window.idle)

    @contextmanager
    def timed(self, scorers: Sequence[Reading], judged: int) -> Iterator[None]:
        """Time a round of these scorers, in which classifiers judge `judged` positions."""
        before, start = _tokens_read(scorers), time.perf_counter()
        yield
        tokens = _tokens_read(scorers) - before + judged
        if tokens:
            times = self._times_of(frozenset(map(ref, scorers)))
            times.note(tokens, time.perf_counter() - start)

    def learn(self, window: DraftWindow) -> None:
        """Record the acceptance of the drafted tokens that were verified."""
        for source, overlap in window.seen:
            self._acceptance.note((_key(window), source), overlap)
        window.seen.clear()

    def _proposed(self, text: Drafting) -> Draft:
        """The draft of the proposer with the largest expected number of accepted tokens."""
        best, key = Draft(), _key(text.window)
        for i, proposals in enumerate(text.proposals(min(MOST - 1, text.window.room))):
            sources = [(i, p.context, confidence_bucket(p.confidence)) for p in proposals]
            chances = [self._acceptance.of((key, source)) for source in sources]
            draft = Draft([proposed.token for proposed in proposals], sources, chances)
            best = max(best, draft, key=lambda draft: draft.gain)
        return best

    def _propose(self, text: Drafting, draft: Draft, length: int) -> None:
        if draft.tokens:
            length = self._explorer.length((_key(text.window), draft.sources[0]), length)
        text.window.draft(len(draft.tokens[:length]))
        if draft.tokens:
            text.window.propose(draft.tokens[:length], draft.sources[:length])

    def _model_length(self, text: Drafting, round_: Round) -> int:
        """How many tokens the models of a text should draft, if those of all alike texts do."""
        window = text.window
        room = min(MOST - 1, window.room)
        if not window.models or room < 1:
            return 0
        draft_cost = self._draft_cost(text, round_.alike)
        if draft_cost is None:
            return 1  # once, to measure the cost
        rows_per_token = round_.alike * len(window.plan.terms)
        key = _key(window), MODEL
        cost = round_.cost
        length = model_length(
            self._acceptance.of(key),
            room,
            draft_cost,
            lambda n: cost(round_.rows + n * rows_per_token),
        )
        return self._explorer.length(key, length)

    def _is_better(self, text: Drafting, length: int, proposed: Draft, round_: Round) -> bool:
        """Whether a draft by models makes more tokens a second than what was proposed."""
        if not length:
            return False
        rows_per_token = round_.alike * len(text.window.plan.terms)
        made = expected_tokens(self._acceptance.of((_key(text.window), MODEL)), length)
        draft_seconds = length * (self._draft_cost(text, round_.alike) or 0.0)
        rate = made / (draft_seconds + round_.cost(round_.rows + length * rows_per_token))
        proposed_rows = len(proposed.chances) * rows_per_token
        return rate >= (1 + proposed.gain) / round_.cost(round_.rows + proposed_rows)

    def _times_of(self, scorers: _Scorers) -> PassTimes:
        if scorers not in self._times:
            self._times = {key: times for key, times in self._times.items() if _alive(key)}
            self._times[scorers] = self._new_times()
        return self._times[scorers]

    def _draft_cost(self, text: Drafting, alike: int) -> float | None:
        """The seconds of a round in which so many texts draft by models; None before any timing."""
        models = text.window.models
        times = self._times_of(frozenset(ref(text.scorer_of(term)) for term in models))
        return times.cost(alike * len(models))

    def _cost(self, scorers: _Scorers, tokens: int) -> Callable[[int], float] | None:
        """The cost of a round by its tokens; None before a round of `tokens` or fewer was timed."""
        times = self._times_of(scorers)
        if times.least is None or times.least > tokens:
            return None
        return lambda tokens: times.cost(tokens) or 0.0


def _key(window: DraftWindow) -> int:
    """The key of a formula, whose texts share their acceptance."""
    return hash(window.plan.formula)


def _alive(scorers: _Scorers) -> bool:
    return all(scorer() is not None for scorer in scorers)


def _tokens_read(scorers: Sequence[Reading]) -> int:
    return sum(scorer.tokens_read for scorer in scorers)


def judged(counts: Mapping[Term, int]) -> int:
    """How many positions classifiers judge."""
    return sum(count for term, count in counts.items() if isinstance(term, Classifier))
