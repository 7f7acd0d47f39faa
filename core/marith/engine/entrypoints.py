"""`generate`, `stream`, `agenerate`, `astream` and `choose`: the calls of an engine."""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from typing import Any, Literal, Self, Unpack, overload

from marith.engine.call import CallOptions, Requests, ScoringOptions, Stops, request_of
from marith.engine.jobs.queries import Scores
from marith.engine.many import acompletions, completions
from marith.engine.threads.deadline import Deadline
from marith.engine.ticket import Ticket
from marith.errors import require_known
from marith.formula.meaning.binding import Terms
from marith.formula.tree.nodes import Formula
from marith.request.checks import distinct_texts
from marith.request.completion import Choice, Chunk, Completion
from marith.request.prompt import AnyPrompt, Message
from marith.request.request import Request, Speculation
from marith.request.sampling import Sampling
from marith.request.stop import Stop


class Entrypoints(ABC):
    """Each makes requests and calls `submit`, or `submit_scoring`; a `with` block closes."""

    @abstractmethod
    def submit(self, request: Request, begun: float | None = None) -> Ticket:
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
        return await deadline.bound(asyncio.to_thread(self.submit, request, deadline.begun))

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
        """The whole text, once it is finished; `options` are those of `CallOptions`, by name.

        A text as `prompt` is one message of the user; a list of ints is tokens as they stand, as
        `encode(text, start=True)` makes them; a term with `template="plain"` reads text as it
        stands.

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
        """The text in chunks, as they are generated."""
        return iter(
            self.submit(request_of(prompt, formula, terms, sampling, stop, speculation, options))
        )

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
