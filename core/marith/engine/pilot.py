"""Speculation that adapts: how much to draft now, from what passes cost and which drafts stood."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from marith.engine.calibration import expected_tokens
from marith.engine.generation import Generation
from marith.engine.job import Job
from marith.engine.pace import (
    Acceptance,
    Explorer,
    Offer,
    PassTimes,
    confidence_bucket,
    lengths,
    model_length,
)
from marith.engine.plan import MOST
from marith.engine.positions import MODEL
from marith.formula.terms import Classifier, Term
from marith.scoring.prompted import PromptedScorer
from marith.scoring.scorer import Scorer

LONGEST = 3  # rounds for which a text is not looked at, after as many that drafted nothing


@dataclass(frozen=True, slots=True)
class Guessed:
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


class Pilot:
    """Chooses the plan of least expected time per token for every round of every text.

    Keeps state for one engine: what a round costs by how many tokens it computes, measured for
    each set of scorers that take part, and for each formula how many of which drafts stood, of
    those evaluated. Changes what a text costs, never the text's distribution. `times` begins what
    is known of a set of scorers.
    """

    def __init__(self, times: Callable[[], PassTimes] = PassTimes) -> None:
        self._begin = times
        self._times: dict[frozenset[int], PassTimes] = {}
        self._stood = Acceptance()
        self._explorer = Explorer()

    def steer(self, jobs: Sequence[Job], rows: int) -> None:
        """Say how much each text drafts before the next verification, and propose what is free.

        `rows` are the tokens that the next pass computes without drafts.
        """
        begun = [job for job in jobs if isinstance(job, Generation) and job.may_draft]
        cost = self._cost(scorers_of(jobs), rows)
        if not begun or cost is None:
            for job in begun:
                job.tail.lag(0)
            return
        turn = Round(rows, cost, alike=sum(bool(job.tail.models) for job in begun))
        free: list[tuple[Generation, Guessed]] = []
        for job in begun:
            if self._rests(job):
                job.tail.lag(0)
                continue
            guessed, length = self._guessed(job), self._model_drafts(job, turn)
            if self._is_better(job, length, guessed, turn):
                job.tail.lag(length, by_models=True)
            else:
                free.append((job, guessed))
        offers = [Offer(len(job.reader.stages.terms), own.chances) for job, own in free]
        chosen = lengths(offers, rows, len(jobs), cost)
        for (job, guessed), length in zip(free, chosen, strict=True):
            self._propose(job, guessed, length)
            job.pause = min(job.pause + 1, LONGEST) if job.tail.idle else 0
            job.rest = job.pause

    def _rests(self, job: Generation) -> bool:
        """Whether a text that nothing could be drafted for is left in peace for a moment."""
        job.rest -= 1
        return job.rest >= 0

    @contextmanager
    def timing(self, scorers: Sequence[Scorer], judged: int) -> Iterator[None]:
        """Time a round of these scorers, who judge so many positions and read what they read."""
        known, start = computed(scorers), time.perf_counter()
        yield
        tokens = computed(scorers) - known + judged
        if tokens:
            times = self._of(frozenset(map(id, scorers)))
            times.note(tokens, time.perf_counter() - start)

    def learn(self, jobs: Sequence[Job]) -> None:
        """Take in which drafted tokens stood."""
        for job in jobs:
            if isinstance(job, Generation):
                for source, overlap in job.tail.seen:
                    self._stood.note((job.key, source), overlap)
                job.tail.seen.clear()

    def _guessed(self, job: Generation) -> Guessed:
        """What is likeliest to stand for long of all that can be guessed."""
        best = Guessed()
        for i, guesses in enumerate(job.guesses(min(MOST - 1, job.tail.room))):
            sources = [(i, g.context, confidence_bucket(g.confidence)) for g in guesses]
            chances = [self._stood.of((job.key, source)) for source in sources]
            guessed = Guessed([guess.token for guess in guesses], sources, chances)
            best = max(best, guessed, key=lambda one: one.gain)
        return best

    def _propose(self, job: Generation, guessed: Guessed, length: int) -> None:
        if guessed.tokens:
            length = self._explorer.length((job.key, guessed.sources[0]), length)
        job.tail.propose(guessed.tokens[:length], guessed.sources[:length])
        job.tail.lag(len(job.tail.tokens) - job.tail.final)

    def _model_drafts(self, job: Generation, turn: Round) -> int:
        """How many tokens its drafting models should draft, if all alike do so; 0 for none."""
        room = min(MOST - 1, job.tail.room)
        if not job.tail.models or room < 1:
            return 0
        draft_cost = self._draft_cost(job, turn.alike)
        if draft_cost is None:
            return 1  # once, to learn what it costs
        each = turn.alike * len(job.reader.stages.terms)
        chance = self._stood.of((job.key, MODEL))
        length = model_length(chance, room, draft_cost, lambda n: turn.cost(turn.rows + n * each))
        return self._explorer.length((job.key, MODEL), length)

    def _is_better(self, job: Generation, length: int, free: Guessed, turn: Round) -> bool:
        """Whether a model's draft makes more tokens a second than what was guessed."""
        if not length:
            return False
        each = turn.alike * len(job.reader.stages.terms)
        made = expected_tokens(self._stood.of((job.key, MODEL)), length)
        spent = length * (self._draft_cost(job, turn.alike) or 0.0)
        rate = made / (spent + turn.cost(turn.rows + length * each))
        return rate >= (1 + free.gain) / turn.cost(turn.rows + len(free.chances) * each)

    def _of(self, scorers: frozenset[int]) -> PassTimes:
        if scorers not in self._times:
            self._times[scorers] = self._begin()
        return self._times[scorers]

    def _draft_cost(self, job: Generation, alike: int) -> float | None:
        """What a round of the job's drafts costs where so many draft alike; None if never timed."""
        speakers = job.tail.models
        times = self._of(frozenset(id(job.reader.scorers[term]) for term in speakers))
        return times.cost(alike * len(speakers))

    def _cost(self, scorers: frozenset[int], tokens: int) -> Callable[[int], float] | None:
        """What a round costs from so few tokens on; None before one as small has been measured."""
        times = self._of(scorers)
        if times.least is None or times.least > tokens:
            return None
        return lambda tokens: times.cost(tokens) or 0.0


def scorers_of(jobs: Sequence[Job]) -> frozenset[int]:
    """Which scorers a round of these jobs takes."""
    return frozenset(
        id(job.reader.scorers[term]) for job in jobs for term in job.reader.stages.terms
    )


def computed(scorers: Sequence[Scorer]) -> int:
    """How many tokens the language models among these have read in all their passes."""
    return sum(s.runner.tokens_read for s in scorers if isinstance(s, PromptedScorer))


def judged(counts: Mapping[Term, int]) -> int:
    """How many positions classifiers are asked about."""
    return sum(count for term, count in counts.items() if isinstance(term, Classifier))
