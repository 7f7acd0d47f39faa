"""The cost of a generated text."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping

from marith.engine.prepare import Prepared
from marith.formula.tree.terms import Classifier, Observation, Term
from marith.request.completion import StageStats, Stats, TermStats
from marith.scoring.passes.questions import Answer, Reading
from marith.speculation.window import Window


class Costs:
    """The cost of one job, added up round by round. `started` is a time of `time.monotonic`."""

    def __init__(self, prepared: Prepared, started: float) -> None:
        self._prepared = prepared
        self._started = started
        self._passes = self._judged = 0
        self._rounds = 0  # in which every term was evaluated
        # If all terms have one scorer, no classifier judges, and a pass is known by its number.
        self._one_scorer = len({*prepared.lanes.scorers.values()}) == 1
        self._others: Counter[Term] = Counter()  # calls in all other rounds

    def add(self, answers: Mapping[Term, Answer]) -> None:
        """Add one round. A pass counts once, even if several terms share it."""
        # Most rounds evaluate every term, and counting them term by term takes time.
        if len(answers) == len(self._prepared.lanes.lanes):
            self._rounds += 1
        else:
            self._others.update(answers.keys())
        if self._one_scorer:
            passes = {answer.passes for answer in answers.values()}
            self._passes += len(frozenset[int]().union(*passes))
        else:
            scorers = self._prepared.lanes.scorers
            self._judged += sum(answer.judged for answer in answers.values())
            self._passes += len(
                {(id(scorers[t]), n) for t, scored in answers.items() for n in scored.passes}
            )

    def cached_prompt(self) -> int:
        """Return the number of tokens of the prompt that were cached for every term of the formula.

        Tokens of a term's own system prompt count in the `TermStats` of that term only.
        """
        prepared, lanes = self._prepared, self._prepared.lanes
        cached = self._cached_by_term()
        uncached = [
            lanes.scorers[term].uncached(lanes.lanes[term])
            for term in prepared.plan.terms
            if term in cached
        ]
        # A term may have read more tokens than the prompt has, if its own system prompt was not
        # cached.
        return max(0, prepared.budget.prompt_tokens - max(uncached)) if uncached else 0

    def stats(
        self,
        window: Window,
        tokens: int,
        rewinds: int,
        implausible: float,
        uncut: int,
        paused: int,
    ) -> Stats:
        """Return all figures of a text that has ended."""
        stages = tuple(
            StageStats(str(part), done.evaluated, done.accepted, done.overlap / done.evaluated)
            for part, done in window.verified.items()
        )
        readings = self._prepared.lanes.readings
        calls = {term: self._rounds + self._others[term] for term in readings}
        cached = self._cached_by_term()
        terms = {
            str(term): TermStats(_tokens(reading), cached.get(term, 0), calls[term])
            for term, reading in readings.items()
            if calls[term]
        }
        return Stats(
            tokens=tokens,
            passes=self._passes,
            calls=sum(calls.values()),
            seconds=time.monotonic() - self._started,
            drafted=window.drafted,
            accepted=window.accepted,
            judgements=self._judged,
            cached=sum(cached.values()),
            stages=stages,
            terms=terms,
            rewinds=rewinds,
            implausible=implausible,
            uncut=uncut,
            paused=paused,
        )

    def _cached_by_term(self) -> dict[Term, int]:
        """Return how much of the prompt was cached for each term that a language model has read."""
        return {
            term: min(lane.cached, _tokens(lane.reading))
            for term, lane in self._prepared.lanes.lanes.items()
            if lane.cached is not None and not isinstance(term, (Classifier, Observation))
        }


def _tokens(reading: Reading) -> int:
    """Return the number of tokens in a reading. A string, which a classifier reads, counts as 0."""
    return 0 if isinstance(reading, str) else len(reading)
