"""The cost of a generated text, and its plausibility to the terms of its formula."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

from marith.decoding.blocks import Block
from marith.engine.prepare import Prepared
from marith.engine.threads.workers import log
from marith.errors import shown
from marith.formula.tree.nodes import PLAUSIBLE, Formula
from marith.formula.tree.printing import without_texts
from marith.formula.tree.terms import Classifier, Observation, Prompted, Term
from marith.request.completion import StageStats, Stats, TermStats
from marith.scoring.scorer import Reading, Scored
from marith.speculation.execution_plan import ExecutionPlan
from marith.speculation.window import Window
from marith.tensor_rows import Row

_log = logging.getLogger(__name__)
_LEAST = math.log(PLAUSIBLE)
_MANY = 0.5  # share of tokens: at temperature 1, one in five of a model's own tokens is implausible
_ENOUGH = 8  # the least number of tokens to judge a text by


class Costs:
    """Adds up the cost of one job, which `started` at a time of `time.monotonic`."""

    def __init__(self, prepared: Prepared, started: float) -> None:
        self._prepared = prepared
        self._started = started
        self._passes = self._judged = 0
        self._calls: Counter[Term] = Counter()
        self._cached: dict[Term, int] = {}

    def add(self, answers: Mapping[Term, Scored]) -> None:
        """Add one round. A pass counts once, even if several terms share it."""
        calls, cached = self._calls, self._cached
        for term, scored in answers.items():
            calls[term] += 1
            self._judged += scored.judged
            if term not in cached and scored.passes:  # the first answer reads the prompt
                cached[term] = scored.cached
        scorers = self._prepared.lanes.scorers
        self._passes += len(
            {(id(scorers[t]), n) for t, scored in answers.items() for n in scored.passes}
        )

    def cached_prompt(self) -> int:
        """Return how many tokens of the prompt were cached for every term of the formula.

        Tokens of a term's own system prompt count in the `TermStats` of that term only.
        """
        prepared, readings = self._prepared, self._prepared.lanes.readings
        read = [t for t in prepared.plan.terms if self._has_read(t)]
        unread = [_tokens(readings[term]) - self._cached[term] for term in read]
        return max(0, prepared.budget.prompt_tokens - max(unread)) if unread else 0

    def stats(
        self, window: Window, tokens: int, rewinds: int, implausible: float, uncut: int
    ) -> Stats:
        """Return all figures, at the end of the text."""
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
        )

    def _has_read(self, term: Term) -> bool:
        """Return True if the term has read the prompt with a language model."""
        return term in self._cached and not isinstance(term, (Classifier, Observation))


def _tokens(reading: Reading) -> int:
    """Return the number of tokens in a reading; 0 for the text that a classifier reads."""
    return 0 if isinstance(reading, str) else len(reading)


class Plausibility:
    """Counts the tokens of one text that are implausible to all prompted terms of `formula`.

    Only rows in main memory are examined, because examining rows on a GPU would wait for the GPU.
    """

    def __init__(self, formula: Formula) -> None:
        self._formula = formula
        self._rows: dict[int, list[Row]] = {}  # of the terms, by place, until it is final
        self._found: dict[int, bool] = {}

    @classmethod
    def of(cls, plan: ExecutionPlan) -> Plausibility | None:
        """Return None for a formula of one term: what it generates is plausible to that term."""
        return None if isinstance(plan.whole, Term) else cls(plan.whole)

    def record(self, blocks: Sequence[Block], places: Sequence[int]) -> None:
        """Keep the rows of the places where the whole formula was composed."""
        positions = [(block, at) for block in blocks for at in range(block.count)]
        for place, (block, at) in zip(places, positions, strict=True):
            if block.formula == self._formula:
                self._rows[place] = [
                    rows[at] for term, rows in block.rows.items() if isinstance(term, Prompted)
                ]

    def take(self, place: int, token: int) -> None:
        """Examine the final token at a place, and drop the rows of the place."""
        rows = self._rows.pop(place, None)
        if rows and rows[0][0].is_cpu:
            self._found[place] = not any(_is_plausible(row, token) for row in rows)

    def share(self, end: int) -> float:
        """Return the share of implausible tokens before a place. A large share is logged once."""
        found = [implausible for place, implausible in self._found.items() if place < end]
        share = sum(found) / len(found) if found else 0.0
        if share > _MANY and len(found) >= _ENOUGH:
            _warn_once(self._formula)
        return share


def _is_plausible(row: Row, token: int) -> bool:
    tensor, index = row
    logprobs = tensor[index].numpy()
    return bool(logprobs[token] >= _LEAST or logprobs[token] >= logprobs.max() + _LEAST)


@lru_cache(maxsize=64)  # formulas: each is warned about once
def _warn_once(formula: Formula) -> None:
    log(
        _log,
        logging.WARNING,
        "most tokens of a text are implausible to every term of %s: its factors may be too large, "
        "see marith.explain",
        shown(without_texts(formula)),
    )
