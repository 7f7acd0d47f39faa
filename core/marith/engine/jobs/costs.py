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
        self._calls: Counter[Term] = Counter()
        self._cached: dict[Term, int] = {}

    def add(self, answers: Mapping[Term, Answer]) -> None:
        """Add one round. A pass counts once, even if several terms share it."""
        calls, cached = self._calls, self._cached
        for term, scored in answers.items():
            calls[term] += 1
            self._judged += scored.judged
            # A term reads the prompt for its first answer, so only that answer says how much was
            # cached.
            if term not in cached and scored.passes:
                cached[term] = scored.cached
        scorers = self._prepared.lanes.scorers
        self._passes += len(
            {(id(scorers[t]), n) for t, scored in answers.items() for n in scored.passes}
        )

    def cached_prompt(self) -> int:
        """Return the number of tokens of the prompt that were cached for every term of the formula.

        Tokens of a term's own system prompt count in the `TermStats` of that term only.
        """
        prepared, readings = self._prepared, self._prepared.lanes.readings
        read = [t for t in prepared.plan.terms if self._has_read(t)]
        unread = [_tokens(readings[term]) - self._cached[term] for term in read]
        # A term may have read more tokens than the prompt has, if its own system prompt was not
        # cached.
        return max(0, prepared.budget.prompt_tokens - max(unread)) if unread else 0

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
        cached = {term: count for term, count in self._cached.items() if self._has_read(term)}
        terms = {
            str(term): TermStats(_tokens(reading), cached.get(term, 0), self._calls[term])
            for term, reading in self._prepared.lanes.readings.items()
            if self._calls[term]
        }
        return Stats(
            tokens=tokens,
            passes=self._passes,
            calls=self._calls.total(),
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

    def _has_read(self, term: Term) -> bool:
        """Return True if the term has read the prompt with a language model."""
        return term in self._cached and not isinstance(term, (Classifier, Observation))


def _tokens(reading: Reading) -> int:
    """Return the number of tokens in a reading. A string, which a classifier reads, counts as 0."""
    return 0 if isinstance(reading, str) else len(reading)
