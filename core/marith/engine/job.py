"""A request while it runs: what it asks at each step, and what it makes of the answer."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from marith.decoding.sampling import draw, generator, warp
from marith.decoding.stopping import TextGate
from marith.engine.request import Reader, Request
from marith.engine.ticket import Chunk, Completion, FinishReason, Stats, Ticket, Usage
from marith.formula.terms import Term
from marith.scoring.vocabulary import TextStream, Vocabulary

Answer = TypeVar("Answer")
AT_ONCE = 64  # positions of a continuation whose distributions are in memory together


@dataclass(frozen=True, slots=True)
class Cost:
    """What one answer cost one job: passes it took part in, terms asked, candidates judged.

    `cached` counts the prompt tokens that were at hand in every lane, `cached_by_all` the sum.
    """

    passes: int
    calls: int
    judged: int
    cached: int
    cached_by_all: int


class Job(Protocol):
    """Something that asks for composed log-probabilities until it is done."""

    reader: Reader

    @property
    def timeout(self) -> float:
        """How many seconds after its start an answer comes too late."""
        ...

    @property
    def started(self) -> float:
        """When it was asked for, by `time.monotonic`."""
        ...

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits for it any more."""
        ...

    @property
    def done(self) -> bool:
        """Whether it needs no further step."""
        ...

    def asks(self) -> tuple[Sequence[int], int]:
        """The continuation, and how many of its last positions are wanted."""
        ...

    def hear(self, logprobs: Tensor, cost: Cost) -> None:
        """The composed log-probabilities [count, vocab] of what was asked."""
        ...

    def fail(self, error: BaseException) -> None:
        """Tell the caller, and be done."""
        ...


def lane_of(job: Job, term: Term) -> Hashable:
    """Whose reading it is: this job's, of this term."""
    return id(job), term


class Generation:
    """A text in the making. Its state belongs to the engine's thread.

    The ticket is held weakly: a caller who forgets it has given the request up.
    """

    def __init__(
        self, request: Request, reader: Reader, vocabulary: Vocabulary, ticket: Ticket
    ) -> None:
        self.reader = reader
        self.done = False
        self._ticket = weakref.ref(ticket)
        self._sampling = request.sampling
        self._source = generator(request.sampling)
        self._most = min(request.stop.max_tokens, reader.room)
        self._ends = vocabulary.eos_ids
        self._stream = TextStream(vocabulary)
        self._gate = TextGate(request.stop.strings)
        self._tokens: list[int] = []
        self._text: list[str] = []
        self._untold: list[int] = []
        self._passes = self._calls = self._judged = 0
        self._first: Cost | None = None
        self.started = time.monotonic()
        self.timeout = math.inf if request.timeout is None else request.timeout

    @property
    def abandoned(self) -> bool:
        ticket = self._ticket()
        return ticket is None or ticket.cancelled

    def asks(self) -> tuple[Sequence[int], int]:
        return self._tokens, 1

    def hear(self, logprobs: Tensor, cost: Cost) -> None:
        self._passes += cost.passes
        self._calls += cost.calls
        self._judged += cost.judged
        self._first = self._first or cost
        token = draw(warp(logprobs, self._sampling, self._tokens)[-1], self._source)
        if token in self._ends:
            self._tell(self._gate.feed(self._stream.flush()) + self._gate.flush(), "stop")
            return
        self._tokens.append(token)
        self._untold.append(token)
        text = self._gate.feed(self._stream.feed(token))
        if self._gate.closed:
            self._tell(text, "stop")
        elif len(self._tokens) >= self._most:
            rest = self._gate.feed(self._stream.flush())
            reason: FinishReason = "stop" if self._gate.closed else "length"
            self._tell(text + rest + self._gate.flush(), reason)
        elif text:
            self._tell(text, None)

    def fail(self, error: BaseException) -> None:
        self.done = True
        if ticket := self._ticket():
            ticket.end(error)

    def _tell(self, text: str, reason: FinishReason | None) -> None:
        self._text.append(text)
        self.done = reason is not None
        ticket = self._ticket()
        if ticket is None:
            return
        ticket.put(Chunk(text, tuple(self._untold), reason))
        self._untold = []
        if reason is not None:
            ticket.end(self._completion(reason))

    def _completion(self, reason: FinishReason) -> Completion:
        prompt, made = self.reader.prompt_tokens, len(self._tokens)
        first = self._first
        assert first is not None, "a text ends when its job has heard something"
        usage = Usage(prompt, made, min(first.cached, prompt))
        stats = Stats(
            tokens=made,
            passes=self._passes,
            calls=self._calls,
            seconds=time.monotonic() - self.started,
            judgements=self._judged,
            cached=first.cached_by_all,
        )
        return Completion("".join(self._text), self._tokens, reason, usage, stats)


class _Question(Generic[Answer]):
    """A given continuation, and the answer that a caller waits for."""

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

    def fail(self, error: BaseException) -> None:
        self.answer.set_exception(error)


class Glance(_Question[Tensor]):
    """The distribution after a given continuation: one question, one answer [vocab]."""

    def asks(self) -> tuple[Sequence[int], int]:
        return self._continuation, 1

    def hear(self, logprobs: Tensor, cost: Cost) -> None:
        self.answer.set_result(logprobs[-1].clone())


class Scoring(_Question[list[float]]):
    """The log-probability of each token of a continuation, asked for a piece at a time.

    A long text neither holds up the others nor has all its distributions in memory at once.
    """

    def __init__(
        self, reader: Reader, continuation: Sequence[int], timeout: float | None = None
    ) -> None:
        super().__init__(reader, continuation, timeout)
        self._scores: list[float] = []
        if not continuation:
            self.answer.set_result([])

    def asks(self) -> tuple[Sequence[int], int]:
        known, length = len(self._scores), len(self._continuation)
        end = min(length, known + AT_ONCE)
        return self._continuation[: end - 1], end - known

    def hear(self, logprobs: Tensor, cost: Cost) -> None:
        known = len(self._scores)
        tokens = torch.tensor(self._continuation[known : known + len(logprobs)])
        at = tokens[:, None].to(logprobs.device)
        self._scores += logprobs.gather(1, at)[:, 0].tolist()
        if len(self._scores) == len(self._continuation):
            self.answer.set_result(self._scores)
