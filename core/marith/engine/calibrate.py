"""Choose a plan from log-probabilities along sampled texts, and from measured times."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Literal

from torch import Tensor

from marith.engine.jobs.job import Job
from marith.engine.jobs.queries import Query
from marith.engine.prepare import Prepared
from marith.errors import RequestError
from marith.formula.tree.terms import Term
from marith.request.plan import Plan
from marith.request.stop import Stop
from marith.scoring.passes.questions import Answer
from marith.speculation.cost_model import Price, Samples, choose
from marith.tensor_rows import Row, rows_of

WIDTHS = (1, 4, 8)
REPEATS = 5
LENGTH = 64  # tokens of each sampled text
SAMPLE = Stop(LENGTH)
# Work that generates nothing counts as these numbers of generated tokens: reading a text again in
# one pass, and timing the terms of one scorer.
READING, TIMING = 4, 20

_log = logging.getLogger(__name__)


class Work:
    """The progress of a calibration. Keeps state.

    After the first text the expected time of the whole calibration is logged. `on_progress`
    receives the share that is done, from 0 to 1, after each text and each measurement.
    """

    def __init__(self, count: int, on_progress: Callable[[float], None] | None) -> None:
        self._whole = count * (LENGTH + READING) + TIMING
        self._count, self._on_progress = count, on_progress
        self._begun, self._done = time.monotonic(), 0

    def advance(self, tokens: int = LENGTH) -> None:
        """Add work that took about as long as generating `tokens` tokens."""
        is_first = not self._done
        self._done += tokens
        share = min(self._done / self._whole, 1.0)
        if is_first:
            seconds = (time.monotonic() - self._begun) / share
            _log.info("a calibration on %d prompts takes about %.0f s", self._count, seconds)
        if self._on_progress is not None:
            self._on_progress(share)


def calibrate(
    texts: Sequence[tuple[Prepared, Sequence[int]]],
    run: Callable[[Job], None],
    costs: Literal["time", "calls"],
    work: Work,
) -> Plan:
    """Return the cheapest plan for a formula, measured on texts that the formula generated.

    `texts` has the tokens of each text, with its prepared request. The plan of that request uses
    the drafts that the formula names. `run` submits a job to the engine.
    """
    texts = [(prepared, tokens) for prepared, tokens in texts if tokens]
    if not texts:
        return Plan()
    transcripts = [Transcript(prepared, tokens) for prepared, tokens in texts]
    for transcript in transcripts:
        run(transcript)
    logprobs = []
    for transcript in transcripts:
        logprobs.append(transcript.future.wait())
        work.advance(READING)
    samples = Samples(texts[0][0].plan, logprobs)
    if costs == "calls":
        return choose(samples, [Price.by_calls(term) for term in samples.plan.all_terms])
    # The longest text is timed, because no other text has positions for more of `WIDTHS`.
    longest = max(range(len(texts)), key=lambda i: len(texts[i][1]))
    prices = []
    for group in _groups(texts[longest][0]):
        stopwatch = Stopwatch(*texts[longest], group, samples.logprobs[longest])
        run(stopwatch)
        prices.append(Price.by_time(group, stopwatch.future.wait()))
        work.advance(TIMING)
    return choose(samples, prices)


def check_samples(prompts: Any, costs: Any) -> None:
    """Raise RequestError for arguments that `Engine.calibrate` does not accept."""
    if isinstance(prompts, str) or not isinstance(prompts, Sequence) or not prompts:
        raise RequestError(f"prompts are a list of at least one prompt, not {prompts!r}")
    if costs not in ("time", "calls"):
        raise RequestError(f"costs are 'time' or 'calls', not {costs!r}")


class Transcript(Query[Mapping[Term, Tensor]]):
    """A query for the log-probabilities [tokens, vocab] of all terms and drafts along a text."""

    def wanted(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        # The last token predicts no token of the text, so no term reads it.
        text = self._continuation[:-1]
        return text, dict.fromkeys(self.prepared.plan.all_terms, len(text) + 1)

    def receive(self, answers: Mapping[Term, Answer]) -> None:
        self.future.give({term: scored.logprobs for term, scored in answers.items()})


class Stopwatch(Query[dict[int, float]]):
    """A query that measures the median seconds of evaluating `terms`, by the number of positions.

    `logprobs` are the log-probabilities of all terms along the text. The candidates of a
    classifier, the likeliest tokens of its guide, are computed from them.
    """

    def __init__(
        self,
        prepared: Prepared,
        continuation: Sequence[int],
        terms: Iterable[Term],
        logprobs: Mapping[Term, Tensor],
    ) -> None:
        super().__init__(prepared, continuation[:-1])
        self._terms = tuple(terms)
        self._logprobs = logprobs
        widths = [width for width in WIDTHS if width <= len(continuation)]
        self._left = [width for width in widths for _ in range(REPEATS)]
        self._times: dict[int, list[float]] = {width: [] for width in widths}
        self._since = 0.0
        self._prompt_read = False
        self._pending: list[int] = []

    def rows(
        self, terms: Collection[Term], count: int, answers: Mapping[Term, Answer]
    ) -> dict[Term, Sequence[Row]]:
        return {term: rows_of(self._logprobs[term])[-count:] for term in terms}

    def wanted(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        now = time.perf_counter()
        # The time runs from one step to the next, so that the work around a pass counts too.
        if self._pending:
            self._times[self._pending.pop()].append(now - self._since)
        self._since = now
        return self._continuation, dict.fromkeys(
            self._terms, self._left[0] if self._prompt_read else 1
        )

    def receive(self, answers: Mapping[Term, Answer]) -> None:
        if self._prompt_read:
            self._pending.append(self._left.pop(0))
        # The first step also reads the prompt, so its time is not taken.
        self._prompt_read = True
        if not self._left:
            self._times[self._pending.pop()].append(time.perf_counter() - self._since)
            self.future.give({width: median(times) for width, times in self._times.items()})


def _groups(prepared: Prepared) -> list[list[Term]]:
    """Group the terms and drafts by their scorer, which computes a group in one call."""
    together: dict[int, list[Term]] = {}
    for term in prepared.plan.all_terms:
        together.setdefault(id(prepared.lanes.scorers[term]), []).append(term)
    return list(together.values())
