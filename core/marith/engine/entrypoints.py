"""`generate`, `stream`, `agenerate`, `astream` and `rank`: the calls of an engine."""

from __future__ import annotations

import asyncio
import math
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import aclosing, contextmanager
from time import monotonic
from typing import Any, Literal, Self, Unpack, overload

from marith.engine.call import CallOptions, Requests, ScoringOptions, Stops, request_of
from marith.engine.jobs.queries import Scores
from marith.engine.threads.deadline import Deadline
from marith.engine.ticket import Ticket
from marith.errors import Busy, require_known
from marith.formula.meaning.binding import Terms
from marith.formula.tree.nodes import Formula
from marith.request.checks import distinct_texts
from marith.request.completion import Chunk, Completion, Ranking
from marith.request.prompt import AnyPrompt, Message
from marith.request.request import Request, Speculation
from marith.request.sampling import Sampling
from marith.request.stop import Stop

# A call has at most this number of requests in the engine: enough to fill most engines.
IN_FLIGHT = 128
PATIENCE = 1.0  # seconds before progress is shown


class _InFlight:
    """The waiting requests of one call, the tickets of submitted ones, and the completions."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.waiting = deque(requests)
        self.tickets: deque[Ticket] = deque()
        self.done: list[Completion] = []
        self.full = False  # True while the engine accepts no more requests

    @property
    def may_submit(self) -> bool:
        """True if the next request may be submitted now."""
        return bool(self.waiting) and not self.full and len(self.tickets) < IN_FLIGHT

    @contextmanager
    def submitting(self) -> Iterator[None]:
        """Count the next request as submitted if the block succeeds.

        Busy is raised only if no other request of the call is in the engine. Otherwise the request
        waits.
        """
        try:
            yield
        except Busy:
            if not self.tickets:
                raise
            self.full = True
        else:
            self.waiting.popleft()

    def finish(self, completion: Completion) -> None:
        """Record the completion of the first ticket."""
        self.tickets.popleft()
        self.done.append(completion)
        # The finished request has left room for another one.
        self.full = False

    def __enter__(self) -> _InFlight:
        return self

    def __exit__(self, *_: object) -> None:
        for ticket in self.tickets:
            ticket.cancel()


def completions(
    requests: Sequence[Request], submit: Callable[[Request], Ticket]
) -> list[Completion]:
    """Return the completion of each request, in order. The first error cancels the other requests.

    Raises Busy only if the engine accepts none of the requests.
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
    """Return what `completions` returns, without blocking the event loop."""
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
    """Show a progress bar for `total` requests that take longer than a second.

    The bar is shown on a terminal, and in a notebook with ipywidgets.
    """
    on_terminal = sys.stderr is not None and sys.stderr.isatty()
    if total < 2 or not ("ipykernel" in sys.modules or on_terminal):
        yield lambda: None
        return
    # rich is slow to import, and most calls show no bar.
    from rich.progress import MofNCompleteColumn, Progress

    from marith.console import bars

    shown, began = bars(*Progress.get_default_columns(), MofNCompleteColumn()), monotonic()
    shown.live.transient = True
    task = shown.add_task("texts", total=total)

    def advance() -> None:
        shown.advance(task)
        if monotonic() - began >= PATIENCE:
            shown.start()

    try:
        yield advance
    finally:
        # Stopping a bar that is not shown may print an empty line.
        if shown.live.is_started:
            shown.stop()


class Entrypoints(ABC):
    """The calls that generate. They make requests and pass them to `submit` or `submit_scoring`."""

    @abstractmethod
    def submit(self, request: Request, started: float | None = None) -> Ticket:
        """Start a request."""

    @abstractmethod
    def submit_scoring(self, *args: Any, **options: Any) -> Future[Scores]:
        """Start to score a continuation."""

    @abstractmethod
    def close(self) -> None:
        """Stop. A `with` block calls this at its end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _started(self, request: Request) -> Ticket:
        """Submit a request in a thread, because tokenizing a long prompt takes time."""
        deadline = Deadline.of(request.timeout)
        return await deadline.wait_for(asyncio.to_thread(self.submit, request, deadline.started))

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
        """Generate a text, and return it when it is complete.

        The arguments are fields of `Request`. A list of prompts gives a list of texts, in order.
        With `n` above 1, the call returns a list of `n` samples. If the sampling has the seed s,
        they have the seeds s, s + 1, and so on. With a list of prompts and `n` above 1, the call
        returns a list of lists. All texts share their passes. The first error is raised, and
        cancels the other texts.
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
        """Generate as `generate` does, without blocking the event loop."""
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
        """Yield the text in chunks, as they are generated, without blocking the event loop."""
        request = request_of(prompt, formula, terms, sampling, stop, speculation, options)
        ticket = await self._started(request)
        async with aclosing(ticket.__aiter__()) as chunks:  # type: ignore[type-var]  # a generator, typed as an iterator
            async for chunk in chunks:
                yield chunk

    def rank(
        self,
        prompt: AnyPrompt,
        texts: Sequence[str],
        formula: str | Formula = "M",
        terms: Terms | None = None,
        **limits: Unpack[ScoringOptions],
    ) -> Ranking:
        """Rank `texts` by the probability that an answer begins with each of them.

        The probabilities of all `texts` add up to 1. The texts share their passes. To sample one of
        the texts, use `Grammar.choice`.
        """
        require_known("rank", limits, ScoringOptions.__annotations__)
        each = distinct_texts("texts", texts)
        scorings = [self.submit_scoring(prompt, t, formula, terms, **limits) for t in each]
        try:
            scores = [scoring.result().logprobs for scoring in scorings]
        finally:
            for scoring in scorings:
                scoring.cancel()
        return Ranking.of(dict(zip(each, map(math.fsum, scores), strict=True)))
