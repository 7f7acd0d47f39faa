"""`generate`, `stream`, `agenerate`, `astream`: whole texts or chunks, blocking or awaited."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import fields
from difflib import get_close_matches
from typing import Unpack

from marith.engine.threads.deadline import Deadline
from marith.engine.ticket import Ticket
from marith.errors import UnknownOption
from marith.formula.meaning.binding import Terms
from marith.formula.tree.nodes import Formula
from marith.request.completion import Chunk, Completion
from marith.request.prompt import Message
from marith.request.request import Request, RequestOptions, Speculation
from marith.request.sampling import Sampling
from marith.request.stop import Stop

_FIELDS = {
    "sampling": [field.name for field in fields(Sampling)],
    "stop": [field.name for field in fields(Stop)],
}


class Entrypoints(ABC):
    """Each makes a request and calls `submit`."""

    @abstractmethod
    def submit(self, request: Request, begun: float | None = None) -> Ticket:
        """Start a request."""

    async def _started(self, request: Request) -> Ticket:
        """`submit` in a thread, since a prompt may be long; awaited until the deadline."""
        deadline = Deadline.of(request.timeout)
        return await deadline.bound(asyncio.to_thread(self.submit, request, deadline.begun))

    def generate(
        self,
        prompt: str | Sequence[Message],
        formula: str | Formula = "M",
        terms: Terms | None = None,
        sampling: Sampling = Sampling(),
        stop: Stop = Stop(),
        speculation: Speculation = "auto",
        **options: Unpack[RequestOptions],
    ) -> Completion:
        """The whole text, once it is finished."""
        return self.submit(
            request_of(prompt, formula, terms, sampling, stop, speculation, options)
        ).result()

    def stream(
        self,
        prompt: str | Sequence[Message],
        formula: str | Formula = "M",
        terms: Terms | None = None,
        sampling: Sampling = Sampling(),
        stop: Stop = Stop(),
        speculation: Speculation = "auto",
        **options: Unpack[RequestOptions],
    ) -> Iterator[Chunk]:
        """The text in chunks, as they are generated."""
        return iter(
            self.submit(request_of(prompt, formula, terms, sampling, stop, speculation, options))
        )

    async def agenerate(
        self,
        prompt: str | Sequence[Message],
        formula: str | Formula = "M",
        terms: Terms | None = None,
        sampling: Sampling = Sampling(),
        stop: Stop = Stop(),
        speculation: Speculation = "auto",
        **options: Unpack[RequestOptions],
    ) -> Completion:
        """The whole text; the event loop is not blocked."""
        request = request_of(prompt, formula, terms, sampling, stop, speculation, options)
        return await (await self._started(request))

    async def astream(
        self,
        prompt: str | Sequence[Message],
        formula: str | Formula = "M",
        terms: Terms | None = None,
        sampling: Sampling = Sampling(),
        stop: Stop = Stop(),
        speculation: Speculation = "auto",
        **options: Unpack[RequestOptions],
    ) -> AsyncIterator[Chunk]:
        """The text in chunks, as they are generated; the event loop is not blocked."""
        request = request_of(prompt, formula, terms, sampling, stop, speculation, options)
        ticket = await self._started(request)
        async with aclosing(ticket.__aiter__()) as chunks:  # type: ignore[type-var]  # a generator, typed as an iterator
            async for chunk in chunks:
                yield chunk


def request_of(
    prompt: str | Sequence[Message],
    formula: str | Formula,
    terms: Terms | None,
    sampling: Sampling,
    stop: Stop,
    speculation: Speculation,
    options: RequestOptions,
) -> Request:
    """The request that the arguments of `generate` describe. Raises UnknownOption."""
    for name in options.keys() - RequestOptions.__annotations__.keys():
        home = next((kind for kind, names in _FIELDS.items() if name in names), None)
        similar = get_close_matches(name, RequestOptions.__annotations__, 1)
        advice = f", but {', '.join(RequestOptions.__annotations__)}"
        if home is not None:
            advice = f"; write {home}={home.capitalize()}({name}=…)"
        elif similar:
            advice = f"; is {similar[0]!r} meant?"
        raise UnknownOption(f"a request takes no {name!r}{advice}")
    return Request(prompt, formula, terms, sampling, stop, speculation, **options)
