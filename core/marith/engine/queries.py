"""Questions about a given text: the distribution after it, and how likely its tokens are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch
from torch import Tensor

from marith.engine.job import Job
from marith.engine.prepare import Prepared
from marith.engine.threads.delivery import Answer
from marith.errors import RequestError, shown
from marith.formula.tree.terms import Term
from marith.request.checks import whole
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.scorer import Scored
from marith.speculation.verify import Verdict
from marith.speculation.window import Block
from marith.tensor_rows import Row, gather

Result = TypeVar("Result")
AT_ONCE = 64  # positions of a continuation that one step asks about at most
NUMBERS = 1 << 24  # log-probabilities that all scorings of one step have in memory together


@dataclass(slots=True)
class Scores:
    """Of each token of a given text its log-probability, and whether none was likelier there."""

    logprobs: list[float] = field(default_factory=list)
    likeliest: list[bool] = field(default_factory=list)


class Question(Generic[Result]):
    """A given continuation, and the answer that a caller waits for. Nothing is drawn.

    The `keeper` is kept for as long as the answer is.
    """

    def __init__(
        self, reader: Prepared, continuation: Sequence[int], keeper: object = None
    ) -> None:
        self.reader = reader
        self.answer: Answer[Result] = Answer(keeper)
        self._continuation = continuation

    @property
    def abandoned(self) -> bool:
        return self.answer.cancelled()

    @property
    def done(self) -> bool:
        return self.answer.done()

    def rows(
        self, terms: Collection[Term], count: int, answers: Mapping[Term, Scored]
    ) -> dict[Term, Sequence[Row]]:
        return {term: answers[term].rows[-count:] for term in terms}

    def check(self, rows: Sequence[Row]) -> None:
        """Nothing is drawn."""

    def accept(self, verdict: Verdict) -> None:
        """Nothing is drawn, and so nothing accepted."""

    def fail(self, error: BaseException) -> None:
        self.answer.fail(error)

    def orphan(self, error: BaseException) -> None:
        self.answer.orphan(error)


class _Composed(Question[Result]):
    """A question that the whole formula answers."""

    def receive(self, answers: Mapping[Term, Scored]) -> list[Block]:
        rows = {term: scored.rows for term, scored in answers.items()}
        return [Block(self.reader.plan.formula, rows)]

    def _all_at(self, count: int) -> Mapping[Term, int]:
        """The last positions, of every term."""
        return dict.fromkeys(self.reader.plan.terms, count)


class Glance(_Composed[Tensor]):
    """The distribution after a given continuation: one question, one answer [vocab]."""

    def check(self, rows: Sequence[Row]) -> None:
        logprobs, last = rows[-1]
        self.answer.give(logprobs[last].clone())

    def wanted(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        return self._continuation, self._all_at(1)


class Scoring(_Composed[Scores]):
    """How likely each token of a continuation is, asked for a piece at a time.

    A long text neither holds up the others nor has all its distributions in memory at once.
    """

    def __init__(
        self, reader: Prepared, continuation: Sequence[int], keeper: object = None
    ) -> None:
        super().__init__(reader, continuation, keeper)
        self.at_once = AT_ONCE
        self._scores = Scores()
        if not continuation:
            self.answer.give(self._scores)

    def check(self, rows: Sequence[Row]) -> None:
        logprobs = gather(rows)
        known = len(self._scores.logprobs)
        tokens = torch.tensor(self._continuation[known : known + len(logprobs)])
        at = tokens[:, None].to(logprobs.device)
        self._scores.logprobs += logprobs.gather(1, at)[:, 0].tolist()
        self._scores.likeliest += (logprobs.argmax(dim=1) == at[:, 0]).tolist()
        if len(self._scores.logprobs) == len(self._continuation):
            self.answer.give(self._scores)

    def wanted(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        known, length = len(self._scores.logprobs), len(self._continuation)
        end = min(length, known + self.at_once)
        return self._continuation[: end - 1], self._all_at(end - known)


def share(jobs: Iterable[Job]) -> None:
    """Divide what one step has in memory among all scorings; each asks about one position at least.

    Of each position every term's log-probability of every token of the vocabulary is kept.
    """
    scorings = [job for job in jobs if isinstance(job, Scoring)]
    each = sum(len(job.reader.plan.terms) * job.reader.width for job in scorings)
    for job in scorings:
        job.at_once = max(1, min(AT_ONCE, NUMBERS // each))


def tokens_of(continuation: str | Sequence[int], vocabulary: Vocabulary, room: int) -> list[int]:
    """A continuation's tokens. Raises RequestError for what is no token, and for too many."""
    if isinstance(continuation, str):
        continuation = vocabulary.encode(continuation, most=room)
    try:
        given = list(continuation)
    except TypeError:
        kind = "a text or a list of tokens"
        raise RequestError(f"a continuation is {kind}, not {shown(continuation)}") from None
    tokens = [whole("a token", token, 0, vocabulary.size - 1) for token in given]
    if len(tokens) > room:
        problem = f"the continuation has {len(tokens)} tokens or more"
        raise RequestError(f"{problem}; there is room for {room}")
    return tokens
