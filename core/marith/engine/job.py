"""A request while it runs: what it asks at each step, and what it makes of the answer."""

from __future__ import annotations

import time
import weakref
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from marith.decoding.sampling import draw, generator, warp
from marith.decoding.stopping import TextGate
from marith.engine.request import Reader, Request
from marith.engine.ticket import Chunk, Completion, FinishReason, Stats, Ticket, Usage
from marith.formula.terms import Term
from marith.scoring.vocabulary import TextStream, Vocabulary


@dataclass(frozen=True, slots=True)
class Cost:
    """What one step cost one job: passes it took part in, terms asked, prompt tokens at hand."""

    passes: int
    calls: int
    cached: int


class Job(Protocol):
    """Something that asks for composed log-probabilities until it is done."""

    reader: Reader

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
        self._passes = self._calls = 0
        self._cached: int | None = None
        self._started = time.perf_counter()

    @property
    def abandoned(self) -> bool:
        ticket = self._ticket()
        return ticket is None or ticket.cancelled

    def asks(self) -> tuple[Sequence[int], int]:
        return self._tokens, 1

    def hear(self, logprobs: Tensor, cost: Cost) -> None:
        self._passes += cost.passes
        self._calls += cost.calls
        self._cached = cost.cached if self._cached is None else self._cached
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
        usage = Usage(prompt, made, min(self._cached or 0, prompt))
        seconds = time.perf_counter() - self._started
        stats = Stats(made, self._passes, self._calls, seconds)
        return Completion("".join(self._text), self._tokens, reason, usage, stats)


class Judgement:
    """Log-probabilities of a given continuation: one question, one answer [count, vocab]."""

    def __init__(self, reader: Reader, continuation: Sequence[int]) -> None:
        self.reader = reader
        self.answer: Future[Tensor] = Future()
        self._continuation = continuation

    @property
    def abandoned(self) -> bool:
        return False

    @property
    def done(self) -> bool:
        return self.answer.done()

    def asks(self) -> tuple[Sequence[int], int]:
        return self._continuation, len(self._continuation) + 1

    def hear(self, logprobs: Tensor, cost: Cost) -> None:
        self.answer.set_result(logprobs)

    def fail(self, error: BaseException) -> None:
        self.answer.set_exception(error)
