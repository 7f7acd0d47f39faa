"""Queries about a given text: the distribution after it, and how likely its tokens are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from marith.decoding.blocks import Block
from marith.decoding.sampling import require_numbers
from marith.engine.jobs.job import Job
from marith.engine.prepare import Prepared
from marith.engine.threads.futures import EngineFuture
from marith.errors import RequestError, shown
from marith.formula.tree.terms import Term
from marith.request.checks import whole
from marith.scoring.passes.questions import Answer
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.speculation.drafts import Drafts
from marith.speculation.verify import Verdict
from marith.tensor_rows import Row, gather

Result = TypeVar("Result")
AT_ONCE = 64  # positions of one continuation that a step scores, at most
NUMBERS = 1 << 23  # log-probabilities that all terms of all texts may return in one step


@dataclass(slots=True)
class Scores:
    """The log-probability of each token of a text, and whether the token is the likeliest.

    `top` has the likeliest tokens at each place, with their log-probabilities.
    """

    logprobs: list[float] = field(default_factory=list)
    likeliest: list[bool] = field(default_factory=list)
    top: list[list[tuple[int, float]]] = field(default_factory=list)


class Query(Job, Generic[Result]):
    """A continuation, and the future that the caller waits for. A query draws no token."""

    # A query draws no token, so nothing is drafted.
    drafts: Drafts | None = None
    is_plain = False
    paused = 0

    def __init__(self, prepared: Prepared, continuation: Sequence[int]) -> None:
        self.prepared = prepared
        self.future: EngineFuture[Result] = EngineFuture(prepared.deadline)
        self._continuation = continuation

    @property
    def abandoned(self) -> bool:
        return self.future.cancelled()

    @property
    def done(self) -> bool:
        return self.future.done()

    @property
    def tokens_held(self) -> int:
        # The continuation is given, so memory is counted for all of it.
        return self.prepared.budget.more

    def rows(
        self, terms: Collection[Term], count: int, answers: Mapping[Term, Answer]
    ) -> dict[Term, Sequence[Row]]:
        return {term: answers[term].rows[-count:] for term in terms}

    def check(self, rows: Sequence[Row]) -> None:
        """Return None: a query has nothing to verify."""

    def accept(self, verdict: Verdict) -> None:
        """Do nothing: a query has no tokens to accept."""

    def convert(self) -> None:
        """Do nothing: a query has no tokens to convert."""

    def fail(self, error: BaseException) -> None:
        self.future.fail(error)


class _FormulaQuery(Query[Result]):
    """A query for which the whole formula is composed."""

    def receive(self, answers: Mapping[Term, Answer]) -> Block:
        rows = {term: scored.rows for term, scored in answers.items()}
        count = min(map(len, rows.values()))
        plan = self.prepared.plan
        return Block(plan.formula, plan.leaves(plan.formula), rows, count)

    def _all_at(self, count: int) -> Mapping[Term, int]:
        """Return `count`, the number of trailing positions to evaluate, for every term."""
        return dict.fromkeys(self.prepared.plan.terms, count)


class NextLogprobs(_FormulaQuery[Tensor]):
    """A query for the distribution [vocab] after a given continuation."""

    def check(self, rows: Sequence[Row]) -> None:
        logprobs, last = rows[-1]
        require_numbers(logprobs[last, None])
        self.future.give(logprobs[last].clone())

    def wanted(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        return self._continuation, self._all_at(1)


class TextQuery(_FormulaQuery[Result]):
    """A query of all positions of a continuation from `start` on, some of them in each step.

    So a long text does not delay other jobs, and only the distributions of one step are in memory.
    """

    def __init__(self, prepared: Prepared, continuation: Sequence[int], start: int = 0) -> None:
        super().__init__(prepared, continuation)
        self.at_once = AT_ONCE
        self._known = start

    @property
    def numbers(self) -> int:
        """The number of log-probabilities that the terms return at one position."""
        return len(self.prepared.plan.terms) * self.prepared.vocab_size

    def take(self, logprobs: Tensor, tokens: Tensor) -> None:
        """Take log-probabilities [positions, vocab] and tokens [positions] of the next positions.

        Both are on the device of the log-probabilities.
        """
        raise NotImplementedError

    def result(self) -> Result:
        """Return the result, after all positions have been taken."""
        raise NotImplementedError

    def check(self, rows: Sequence[Row]) -> None:
        logprobs = gather(rows)
        require_numbers(logprobs)
        end = self._known + len(logprobs)
        tokens = torch.tensor(self._continuation[self._known : end])
        self.take(logprobs, tokens.to(logprobs.device))
        self._known = end
        if end == len(self._continuation):
            self.future.give(self.result())

    def wanted(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        end = min(len(self._continuation), self._known + self.at_once)
        # The row after a token predicts the next token, so the last token is not read.
        return self._continuation[: end - 1], self._all_at(end - self._known)


class Scoring(TextQuery[Scores]):
    """A query for the log-probability of each token, and for the `top` likeliest tokens."""

    def __init__(self, prepared: Prepared, continuation: Sequence[int], top: int = 0) -> None:
        super().__init__(prepared, continuation)
        self._scores, self._top = Scores(), top
        if not continuation:
            self.future.give(self._scores)

    def take(self, logprobs: Tensor, tokens: Tensor) -> None:
        self._scores.logprobs += logprobs.gather(1, tokens[:, None])[:, 0].tolist()
        self._scores.likeliest += (logprobs.argmax(dim=1) == tokens).tolist()
        numbers, top = logprobs.topk(min(self._top, logprobs.shape[1]), dim=1)
        self._scores.top += [
            [*zip(*row, strict=True)] for row in zip(top.tolist(), numbers.tolist(), strict=True)
        ]

    def result(self) -> Scores:
        return self._scores


def share(
    scorings: Sequence[TextQuery[Any]], begun: Sequence[TextQuery[Any]] = ()
) -> Sequence[TextQuery[Any]]:
    """Divide the memory of one step among queries, and return the queries that take part.

    All `scorings` get the same number of positions. If the memory does not suffice for one position
    of each, the last of them wait. The queries in `begun` hold answers of some terms, and keep
    their share of the memory.
    """
    left = NUMBERS - sum(scoring.at_once * scoring.numbers for scoring in begun)
    positions = left // max(1, sum(scoring.numbers for scoring in scorings))
    for index, scoring in enumerate(scorings):
        scoring.at_once = max(1, min(AT_ONCE, positions))
        left -= scoring.at_once * scoring.numbers
        # A query that is alone takes part, however much memory it needs; otherwise it would wait
        # forever.
        if left < 0 and (begun or index):
            return scorings[:index]
    return scorings


def tokens_of(continuation: str | Sequence[int], vocabulary: Vocabulary, room: int) -> list[int]:
    """Return the tokens of a continuation.

    Raises RequestError for invalid tokens, and for more than `room` tokens.
    """
    # A text that is much too long is not encoded to its end.
    if isinstance(continuation, str):
        continuation = vocabulary.encode(continuation, limit=room)
    try:
        items = list(continuation)
    except TypeError:
        kind = "a text or a list of tokens"
        raise RequestError(f"a continuation is {kind}, not {shown(continuation)}") from None
    tokens = [whole("a token", token, 0, vocabulary.size - 1) for token in items]
    if len(tokens) > room:
        problem = f"the continuation has {len(tokens)} tokens or more"
        raise RequestError(f"{problem}; there is room for {room}")
    return tokens
