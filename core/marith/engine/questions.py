"""Questions about a given text: the distribution after it, and how likely its tokens are."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch
from torch import Tensor

from marith.decoding.speculation import Verdict
from marith.engine.job import Cost
from marith.engine.positions import Block
from marith.engine.request import Reader
from marith.errors import RequestError
from marith.formula.scalars import whole
from marith.formula.terms import Term
from marith.scoring.vocabulary import Vocabulary

Answer = TypeVar("Answer")
AT_ONCE = 64  # positions of a continuation whose distributions are in memory together


@dataclass(slots=True)
class Scores:
    """Of each token of a given text its log-probability, and whether none was likelier there."""

    logprobs: list[float] = field(default_factory=list)
    likeliest: list[bool] = field(default_factory=list)


class Question(Generic[Answer]):
    """A given continuation, and the answer that a caller waits for. Nothing is drawn."""

    abandoned = False

    def __init__(
        self, reader: Reader, continuation: Sequence[int], timeout: float | None = None
    ) -> None:
        self.reader = reader
        self.started = time.monotonic()
        self.timeout = math.inf if timeout is None else timeout
        self.answer: Future[Answer] = Future()
        self._continuation = continuation

    @property
    def done(self) -> bool:
        return self.answer.done()

    def spoken(
        self, terms: Iterable[Term], count: int, heard: Mapping[Term, Tensor]
    ) -> dict[Term, Tensor]:
        return {term: heard[term][-count:] for term in terms}

    def blocks(self) -> list[Block]:
        """Nothing is composed, unless a question asks for the formula's own distribution."""
        return []

    def compose(self, logprobs: Tensor) -> None:
        """Nothing is composed."""

    def settle(self, verdict: Verdict) -> None:
        """Nothing is drawn, and so nothing settled."""

    def fail(self, error: BaseException) -> None:
        self.answer.set_exception(error)


class _Composed(Question[Answer]):
    """A question that the whole formula answers."""

    _said: Mapping[Term, Tensor]

    def hear(self, answers: Mapping[Term, Tensor], cost: Cost) -> None:
        self._said = answers

    def blocks(self) -> list[Block]:
        return [Block(self.reader.stages.formula, self._said)]

    def _of_all(self, count: int) -> Mapping[Term, int]:
        """The last positions, of every term."""
        return dict.fromkeys(self.reader.stages.terms, count)


class Glance(_Composed[Tensor]):
    """The distribution after a given continuation: one question, one answer [vocab]."""

    def compose(self, logprobs: Tensor) -> None:
        self.answer.set_result(logprobs[-1].clone())

    def asks(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        return self._continuation, self._of_all(1)


class Scoring(_Composed[Scores]):
    """How likely each token of a continuation is, asked for a piece at a time.

    A long text neither holds up the others nor has all its distributions in memory at once.
    """

    def __init__(
        self, reader: Reader, continuation: Sequence[int], timeout: float | None = None
    ) -> None:
        super().__init__(reader, continuation, timeout)
        self._scores = Scores()
        if not continuation:
            self.answer.set_result(self._scores)

    def compose(self, logprobs: Tensor) -> None:
        known = len(self._scores.logprobs)
        tokens = torch.tensor(self._continuation[known : known + len(logprobs)])
        at = tokens[:, None].to(logprobs.device)
        self._scores.logprobs += logprobs.gather(1, at)[:, 0].tolist()
        self._scores.likeliest += (logprobs.argmax(dim=1) == at[:, 0]).tolist()
        if len(self._scores.logprobs) == len(self._continuation):
            self.answer.set_result(self._scores)

    def asks(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        known, length = len(self._scores.logprobs), len(self._continuation)
        end = min(length, known + AT_ONCE)
        return self._continuation[: end - 1], self._of_all(end - known)


def tokens_of(continuation: str | Sequence[int], vocabulary: Vocabulary, room: int) -> list[int]:
    """A continuation's tokens. Raises RequestError for what is no token, and for too many."""
    if isinstance(continuation, str):
        continuation = vocabulary.encode(continuation)
    try:
        given = list(continuation)
    except TypeError:
        kind = "a text or a list of tokens"
        raise RequestError(f"a continuation is {kind}, not {continuation!r}") from None
    tokens = [whole("a token", token, 0, vocabulary.size - 1) for token in given]
    if len(tokens) > room:
        raise RequestError(f"the continuation has {len(tokens)} tokens; there is room for {room}")
    return tokens
