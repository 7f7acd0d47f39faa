"""What the plan of a formula is chosen from: what terms return along sampled texts, and when."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Literal

from torch import Tensor

from marith.engine.job import Job
from marith.engine.prepare import Prepared
from marith.engine.queries import Question
from marith.errors import RequestError
from marith.formula.tree.terms import Term
from marith.request.plan import Plan
from marith.scoring.scorer import Scored
from marith.speculation.cost_model import Price, Samples, choose
from marith.tensor_rows import Row, rows_of

WIDTHS = (1, 4, 8)
REPEATS = 5


def calibrate(
    texts: Sequence[tuple[Prepared, Sequence[int]]],
    run: Callable[[Job], None],
    costs: Literal["time", "calls"],
) -> Plan:
    """The plan that costs least for a formula, from texts that were sampled from it.

    Each text with a reader of its prompt, opened with the formula's own drafts; `run` hands a job
    to whoever runs it.
    """
    asked = [(reader, tokens) for reader, tokens in texts if tokens]
    if not asked:
        return Plan()
    transcripts = [Transcript(reader, tokens) for reader, tokens in asked]
    for transcript in transcripts:
        run(transcript)
    samples = Samples(asked[0][0].plan, [one.answer.wait() for one in transcripts])
    if costs == "calls":
        return choose(samples, [Price.by_calls(term) for term in samples.plan.all_terms])
    at = max(range(len(asked)), key=lambda i: len(asked[i][1]))
    prices = []
    for group in _groups(asked[at][0]):
        stopwatch = Stopwatch(*asked[at], group, samples.said[at])
        run(stopwatch)
        prices.append(Price.by_time(group, stopwatch.answer.wait()))
    return choose(samples, prices)


def check_samples(prompts: Any, costs: Any) -> None:
    """Raises RequestError for what nothing can be measured by."""
    if isinstance(prompts, str) or not isinstance(prompts, Sequence) or not prompts:
        raise RequestError(f"prompts are a list of at least one prompt, not {prompts!r}")
    if costs not in ("time", "calls"):
        raise RequestError(f"costs are 'time' or 'calls', not {costs!r}")


class Transcript(Question[Mapping[Term, Tensor]]):
    """What every term and draft says of each token of a text, [tokens, vocab] each."""

    def wanted(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        text = self._continuation[:-1]
        return text, dict.fromkeys(self.reader.plan.all_terms, len(text) + 1)

    def receive(self, answers: Mapping[Term, Scored]) -> tuple[()]:
        self.answer.give({term: scored.logprobs for term, scored in answers.items()})
        return ()


class Stopwatch(Question[dict[int, float]]):
    """How many seconds some terms take to speak of a few positions of a text; medians by width.

    `said` is what all have said of each token, by which classifiers know what to judge.
    """

    def __init__(
        self,
        reader: Prepared,
        continuation: Sequence[int],
        terms: Iterable[Term],
        said: Mapping[Term, Tensor],
    ) -> None:
        super().__init__(reader, continuation[:-1])
        self._terms = tuple(terms)
        self._said_before = said
        widths = [width for width in WIDTHS if width <= len(continuation)]
        self._left = [width for width in widths for _ in range(REPEATS)]
        self._times: dict[int, list[float]] = {width: [] for width in widths}
        self._since = 0.0
        self._read = False
        self._asked: list[int] = []

    def rows(
        self, terms: Collection[Term], count: int, answers: Mapping[Term, Scored]
    ) -> dict[Term, Sequence[Row]]:
        return {term: rows_of(self._said_before[term])[-count:] for term in terms}

    def wanted(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        now = time.perf_counter()
        if self._asked:  # from one step to the next: what is spent around a pass counts too
            self._times[self._asked.pop()].append(now - self._since)
        self._since = now
        return self._continuation, dict.fromkeys(self._terms, self._left[0] if self._read else 1)

    def receive(self, answers: Mapping[Term, Scored]) -> tuple[()]:
        if self._read:
            self._asked.append(self._left.pop(0))
        self._read = True  # the first time the prompt was read too
        if not self._left:
            self._times[self._asked.pop()].append(time.perf_counter() - self._since)
            self.answer.give({width: median(own) for width, own in self._times.items()})
        return ()


def _groups(reader: Prepared) -> list[list[Term]]:
    """The terms and drafts that are computed in one call: those of one scorer."""
    together: dict[int, list[Term]] = {}
    for term in reader.plan.all_terms:
        together.setdefault(id(reader.scorers[term]), []).append(term)
    return list(together.values())
