"""What a calibration measures: what terms say along sampled texts, and how long they take."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import torch
from torch import Tensor

from marith.decoding.evaluation import evaluate
from marith.decoding.speculation import overlap
from marith.engine.job import Cost
from marith.engine.questions import Question
from marith.engine.reader import Reader
from marith.engine.stages import Stages
from marith.formula.nodes import Formula
from marith.formula.terms import NGram, Position, Term, Uniform

WIDTHS = (1, 4, 8)
REPEATS = 5


class Transcript(Question[Mapping[Term, Tensor]]):
    """What every term and draft says of each token of a text, [tokens, vocab] each."""

    def asks(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        text = self._continuation[:-1]
        return text, dict.fromkeys(self.reader.stages.voices, len(text) + 1)

    def hear(self, answers: Mapping[Term, Tensor], cost: Cost) -> None:
        self.answer.give(answers)


class Stopwatch(Question[dict[int, float]]):
    """How many seconds some terms take to speak of a few positions of a text; medians by width.

    `said` is what all have said of each token, by which classifiers know what to judge.
    """

    def __init__(
        self,
        reader: Reader,
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

    def spoken(
        self, terms: Iterable[Term], count: int, heard: Mapping[Term, Tensor]
    ) -> dict[Term, Tensor]:
        return {term: self._said_before[term][-count:] for term in terms}

    def asks(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        now = time.perf_counter()
        if self._asked:  # from one step to the next: what is spent around a pass counts too
            self._times[self._asked.pop()].append(now - self._since)
        self._since = now
        return self._continuation, dict.fromkeys(self._terms, self._left[0] if self._read else 1)

    def hear(self, answers: Mapping[Term, Tensor], cost: Cost) -> None:
        if self._read:
            self._asked.append(self._left.pop(0))
        self._read = True  # the first time the prompt was read too
        if not self._left:
            self._times[self._asked.pop()].append(time.perf_counter() - self._since)
            self.answer.give({width: median(own) for width, own in self._times.items()})


@dataclass(frozen=True)
class Price:
    """What one evaluation of some terms costs: `once`, and `each` position more."""

    terms: frozenset[Term]
    once: float
    each: float = 0.0

    @classmethod
    def by_calls(cls, term: Term) -> Price:
        """One a call, however many positions, as the paper counts; what only counts costs none."""
        return cls(frozenset((term,)), float(not isinstance(term, (NGram, Uniform, Position))))

    @classmethod
    def by_time(cls, terms: Iterable[Term], seconds: Mapping[int, float]) -> Price:
        """A line through what a few widths took."""
        few, many = min(seconds), max(seconds)
        each = max(0.0, (seconds[many] - seconds[few]) / max(1, many - few))
        return cls(frozenset(terms), max(0.0, seconds[few] - few * each), each)


@dataclass
class Samples:
    """What all terms and drafts of `stages` said along sampled texts."""

    stages: Stages
    said: Sequence[Mapping[Term, Tensor]]
    _known: dict[tuple[Formula | None, Formula], float] = field(default_factory=dict)

    def acceptance(self, before: Formula | None, after: Formula) -> float:
        """How likely a token drawn by `before` stands when checked by `after`: 1 − ½Σ|P₁ − P₂|.

        The mean over all positions (paper, lemma 3). Without `before`: a token that n-grams take
        for the likeliest.
        """
        key = before, after
        if key not in self._known:
            shared = [self._shared(before, after, one) for one in self.said]
            self._known[key] = min(1.0, float(torch.cat(shared).mean()))  # more is rounding
        return self._known[key]

    def _shared(
        self, before: Formula | None, after: Formula, said: Mapping[Term, Tensor]
    ) -> Tensor:
        truth = evaluate(after, said).double().exp()
        if before is not None:
            return overlap(truth, evaluate(before, said).double().exp())
        guesser = next(t for t in self.stages.drafts if isinstance(t, NGram))
        return truth.gather(1, said[guesser].argmax(dim=-1, keepdim=True))[:, 0]
