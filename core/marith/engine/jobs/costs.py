"""What a text has cost: passes, evaluations, and prompt tokens that were at hand."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping

from marith.engine.prepare import Prepared
from marith.formula.tree.terms import Classifier, Observation, Term
from marith.request.completion import StageStats, Stats, TermStats
from marith.scoring.scorer import Reading, Scored
from marith.speculation.plain_window import Window


class Costs:
    """Adds up what the answers of one job have cost, since it `started` by `time.monotonic`."""

    def __init__(self, prepared: Prepared, started: float) -> None:
        self._prepared = prepared
        self._started = started
        self._passes = self._judged = 0
        self._calls: Counter[Term] = Counter()
        self._cached: dict[Term, int] = {}

    def add(self, answers: Mapping[Term, Scored]) -> None:
        """One round: a pass counts once, however many terms take part in it."""
        calls, cached = self._calls, self._cached
        for term, scored in answers.items():
            calls[term] += 1
            self._judged += scored.judged
            if term not in cached and scored.passes:  # the first answer reads the prompt
                cached[term] = scored.cached
        scorers = self._prepared.scorers
        self._passes += len(
            {(id(scorers[t]), n) for t, scored in answers.items() for n in scored.passes}
        )

    def cached_prompt(self) -> int:
        """How many of the prompt's tokens every term of the formula had at hand.

        Those of its own system prompt are none of them: they count in its `TermStats` alone.
        """
        prepared = self._prepared
        prompt = prepared.prompt_tokens - len(prepared.prefix)
        read = [t for t in prepared.plan.terms if self._has_read(t)]
        unread = [_tokens(prepared.readings[term]) - self._cached[term] for term in read]
        return max(0, prompt - max(unread)) if unread else 0

    def stats(self, window: Window, tokens: int, rewinds: int, implausible: float) -> Stats:
        """All figures, at the text's end."""
        stages = tuple(
            StageStats(str(part), done.evaluated, done.stood, done.overlap / done.evaluated)
            for part, done in window.verified.items()
        )
        cached = {term: count for term, count in self._cached.items() if self._has_read(term)}
        terms = {
            str(term): TermStats(_tokens(reading), cached.get(term, 0), self._calls[term])
            for term, reading in self._prepared.readings.items()
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
        )

    def _has_read(self, term: Term) -> bool:
        """Whether the term has read the prompt with a language model of its own."""
        return term in self._cached and not isinstance(term, (Classifier, Observation))


def _tokens(reading: Reading) -> int:
    """How many tokens a prompt has as a term reads it; 0 for a text, which a classifier reads."""
    return 0 if isinstance(reading, str) else len(reading)
