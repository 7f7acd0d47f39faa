"""`generate`, `stream`, `agenerate`, `astream` and `choose`: the calls of an engine."""

from __future__ import annotations

import asyncio
import math
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import aclosing, contextmanager
from typing import Any, Literal, Self, Unpack, overload

from marith.engine.call import CallOptions, Requests, ScoringOptions, Stops, request_of
from marith.engine.jobs.queries import Scores
from marith.engine.threads.deadline import Deadline
from marith.engine.ticket import Ticket
from marith.errors import Busy, require_known
from marith.formula.meaning.binding import Terms
from marith.formula.tree.nodes import Formula
from marith.request.checks import distinct_texts
from marith.request.completion import Choice, Chunk, Completion
from marith.request.prompt import AnyPrompt, Message
from marith.request.request import Request, Speculation
from marith.request.sampling import Sampling
from marith.request.stop import Stop

IN_FLIGHT = 128  # requests of one call: enough to fill the lanes of most engines
PATIENCE = 1.0  # seconds before progress is shown


class _InFlight:
    """The requests that wait to be submitted, the tickets of those that run, and what is done."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.waiting = deque(requests)
        self.tickets: deque[Ticket] = deque()
        self.done: list[Completion] = []
        self.full = False  # whether the engine takes on no more before one is done

    @property
    def may_submit(self) -> bool:
        """Whether to submit the next request, and not to wait for the first ticket."""
        return bool(self.waiting) and not self.full and len(self.tickets) < IN_FLIGHT

    @contextmanager
    def submitting(self) -> Iterator[None]:
        """Raises Busy only where the engine takes on none of the requests."""
        try:
            yield
        except Busy:
            if not self.tickets:
                raise
            self.full = True
        else:
            self.waiting.popleft()

    def finish(self, completion: Completion) -> None:
        """The first ticket's completion has come."""
        self.tickets.popleft()
        self.done.append(completion)
        self.full = False

    def __enter__(self) -> _InFlight:
        return self

    def __exit__(self, *_: object) -> None:
        for ticket in self.tickets:
            ticket.cancel()


def completions(
    requests: Sequence[Request], submit: Callable[[Request], Ticket]
) -> list[Completion]:
    """The completion of each request, in order; the first error cancels the others.

    Raises Busy only where the engine takes on none of them.
    """
    with _InFlight(requests) as flight, progress(len(requests)) as advance:
        while flight.waiting or flight.tickets:
            if flight.may_submit:
                with flight.submitting():
                    flight.tickets.append(submit(flight.waiting[0]))
            else:
                flight.finish(flight.tickets[0].result())
                advance()
    return flight.done


async def acompletions(
    requests: Sequence[Request], submit: Callable[[Request], Awaitable[Ticket]]
) -> list[Completion]:
    """As `completions`, awaited: the event loop is not blocked."""
    with _InFlight(requests) as flight, progress(len(requests)) as advance:
        while flight.waiting or flight.tickets:
            if flight.may_submit:
                with flight.submitting():
                    flight.tickets.append(await submit(flight.waiting[0]))
            else:
                flight.finish(await flight.tickets[0])
                advance()
    return flight.done


@contextmanager
def progress(total: int) -> Iterator[Callable[[], Any]]:
    """A bar for so many requests, on a terminal or in a notebook, once they take a second."""
    if total < 2 or not ("ipykernel" in sys.modules or sys.stderr.isatty()):
        yield lambda: None
        return
    from tqdm.auto import tqdm  # a widget in a notebook, else a line on stderr

    with tqdm(total=total, delay=PATIENCE, unit="text", leave=False) as bar:
        yield bar.update


class Entrypoints(ABC):
    """Each makes requests and calls `submit`, or `submit_scoring`; a `with` block closes."""

    @abstractmethod
    def submit(self, request: Request, started: float | None = None) -> Ticket:
        """Start a request."""

    @abstractmethod
    def submit_scoring(self, *args: Any, **options: Any) -> Future[Scores]:
        """Start to score a continuation."""

    @abstractmethod
    def close(self) -> None:
        """Stop serving."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _started(self, request: Request) -> Ticket:
        """`submit` in a thread, since a prompt may be long; awaited until the deadline."""
        deadline = Deadline.of(request.timeout)
        return await deadline.bound(asyncio.to_thread(self.submit, request, deadline.started))

    # fmt: off
    @overload
    def generate(  # type: ignore[overload-overlap]  # 1 is an int
        self, prompt: list[str] | list[list[Any]], formula: str | Formula = ...,
        terms: Terms | None = ..., sampling: Sampling | None = ..., stop: Stops = ...,
        speculation: Speculation = ..., n: Literal[1] = ..., **options: Unpack[CallOptions],
    ) -> list[Completion]: ...
    @overload
    def generate(
        self, prompt: list[str] | list[list[Any]], formula: str | Formula = ...,
        terms: Terms | None = ..., sampling: Sampling | None = ..., stop: Stops = ...,
        speculation: Speculation = ..., *, n: int, **options: Unpack[CallOptions],
    ) -> list[list[Completion]]: ...
    @overload
    def generate(  # type: ignore[overload-overlap]  # 1 is an int
        self, prompt: AnyPrompt, formula: str | Formula = ...,
        terms: Terms | None = ..., sampling: Sampling | None = ..., stop: Stops = ...,
        speculation: Speculation = ..., n: Literal[1] = ..., **options: Unpack[CallOptions],
    ) -> Completion: ...
    @overload
    def generate(
        self, prompt: AnyPrompt, formula: str | Formula = ...,
        terms: Terms | None = ..., sampling: Sampling | None = ..., stop: Stops = ...,
        speculation: Speculation = ..., *, n: int, **options: Unpack[CallOptions],
    ) -> list[Completion]: ...
    # fmt: on
    def generate(
        self,
        prompt: AnyPrompt | list[str] | list[list[Message]],
        formula: str | Formula = "M",
        terms: Terms | None = None,
        sampling: Sampling | None = Sampling(),
        stop: Stops = Stop(),
        speculation: Speculation = "auto",
        n: int = 1,
        **options: Unpack[CallOptions],
    ) -> Completion | list[Completion] | list[list[Completion]]:
        """Return the whole text, once it is finished. The arguments are those of a `Request`.

        A list of prompts gives a list of texts, in order; `n` above 1 gives a list of samples,
        by the seeds seed, seed + 1, …; both give a list of lists. They share their passes. The
        first error is raised, and cancels the others.
        """
        requests = Requests.of(prompt, formula, terms, sampling, stop, speculation, n, options)
        return requests.arranged(completions(requests.all, self.submit))

    def stream(
        self,
        prompt: AnyPrompt,
        formula: str | Formula = "M",
        terms: Terms | None = None,
        sampling: Sampling | None = Sampling(),
        stop: Stops = Stop(),
        speculation: Speculation = "auto",
        **options: Unpack[CallOptions],
    ) -> Iterator[Chunk]:
        """Yield the text in chunks, as they are generated."""
        request = request_of(prompt, formula, terms, sampling, stop, speculation, options)
        return iter(self.submit(request))

    # fmt: off
    @overload
    async def agenerate(  # type: ignore[overload-overlap]  # 1 is an int
        self, prompt: list[str] | list[list[Any]], formula: str | Formula = ...,
        terms: Terms | None = ..., sampling: Sampling | None = ..., stop: Stops = ...,
        speculation: Speculation = ..., n: Literal[1] = ..., **options: Unpack[CallOptions],
    ) -> list[Completion]: ...
    @overload
    async def agenerate(
        self, prompt: list[str] | list[list[Any]], formula: str | Formula = ...,
        terms: Terms | None = ..., sampling: Sampling | None = ..., stop: Stops = ...,
        speculation: Speculation = ..., *, n: int, **options: Unpack[CallOptions],
    ) -> list[list[Completion]]: ...
    @overload
    async def agenerate(  # type: ignore[overload-overlap]  # 1 is an int
        self, prompt: AnyPrompt, formula: str | Formula = ...,
        terms: Terms | None = ..., sampling: Sampling | None = ..., stop: Stops = ...,
        speculation: Speculation = ..., n: Literal[1] = ..., **options: Unpack[CallOptions],
    ) -> Completion: ...
    @overload
    async def agenerate(
        self, prompt: AnyPrompt, formula: str | Formula = ...,
        terms: Terms | None = ..., sampling: Sampling | None = ..., stop: Stops = ...,
        speculation: Speculation = ..., *, n: int, **options: Unpack[CallOptions],
    ) -> list[Completion]: ...
    # fmt: on
    async def agenerate(
        self,
        prompt: AnyPrompt | list[str] | list[list[Message]],
        formula: str | Formula = "M",
        terms: Terms | None = None,
        sampling: Sampling | None = Sampling(),
        stop: Stops = Stop(),
        speculation: Speculation = "auto",
        n: int = 1,
        **options: Unpack[CallOptions],
    ) -> Completion | list[Completion] | list[list[Completion]]:
        """As `generate`; the event loop is not blocked."""
        requests = Requests.of(prompt, formula, terms, sampling, stop, speculation, n, options)
        return requests.arranged(await acompletions(requests.all, self._started))

    async def astream(
        self,
        prompt: AnyPrompt,
        formula: str | Formula = "M",
        terms: Terms | None = None,
        sampling: Sampling | None = Sampling(),
        stop: Stops = Stop(),
        speculation: Speculation = "auto",
        **options: Unpack[CallOptions],
    ) -> AsyncIterator[Chunk]:
        """The text in chunks, as they are generated; the event loop is not blocked."""
        request = request_of(prompt, formula, terms, sampling, stop, speculation, options)
        ticket = await self._started(request)
        async with aclosing(ticket.__aiter__()) as chunks:  # type: ignore[type-var]  # a generator, typed as an iterator
            async for chunk in chunks:
                yield chunk

    def choose(
        self,
        prompt: AnyPrompt,
        options: Sequence[str],
        formula: str | Formula = "M",
        terms: Terms | None = None,
        **limits: Unpack[ScoringOptions],
    ) -> Choice:
        """Which of some texts the formula answers with, and the probability of each among them.

        All texts share their passes. `Grammar.choice` samples one of them instead.
        """
        require_known("choose", limits, ScoringOptions.__annotations__)
        texts = distinct_texts("options", options)
        scorings = [self.submit_scoring(prompt, t, formula, terms, **limits) for t in texts]
        try:
            scores = [scoring.result().logprobs for scoring in scorings]
        finally:
            for scoring in scorings:
                scoring.cancel()
        return Choice.of(dict(zip(texts, map(math.fsum, scores), strict=True)))
