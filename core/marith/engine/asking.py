"""The four ways to ask an engine: for a whole text or as it comes, waiting or awaiting."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from marith.decoding.banning import Ban
from marith.decoding.grammar import Grammar
from marith.decoding.sampling import Sampling
from marith.decoding.stopping import Stop
from marith.engine.completion import Chunk, Completion
from marith.engine.request import Request, Speculation
from marith.engine.ticket import Ticket
from marith.engine.tools import Tools
from marith.formula.binding import Terms
from marith.formula.nodes import Formula
from marith.scoring.scorer import Message


class Asking(ABC):
    """Lines over `submit`, which says what a request may hold."""

    @abstractmethod
    def submit(self, request: Request) -> Ticket:
        """Start a request."""

    def generate(
        self,
        prompt: str | Sequence[Message],
        formula: str | Formula = "M",
        terms: Terms | None = None,
        sampling: Sampling = Sampling(),
        stop: Stop = Stop(),
        speculation: Speculation = "auto",
        timeout: float | None = None,
        grammar: Grammar | None = None,
        tools: Tools | None = None,
        logprobs: int | None = None,
        template_options: Mapping[str, Any] | None = None,
        ban: Ban | None = None,
    ) -> Completion:
        """The whole text, once it is finished."""
        return self.submit(
            Request(
                prompt,
                formula,
                terms,
                sampling,
                stop,
                speculation,
                timeout,
                grammar,
                tools,
                logprobs,
                template_options,
                ban,
            )
        ).result()

    def stream(
        self,
        prompt: str | Sequence[Message],
        formula: str | Formula = "M",
        terms: Terms | None = None,
        sampling: Sampling = Sampling(),
        stop: Stop = Stop(),
        speculation: Speculation = "auto",
        timeout: float | None = None,
        grammar: Grammar | None = None,
        tools: Tools | None = None,
        logprobs: int | None = None,
        template_options: Mapping[str, Any] | None = None,
        ban: Ban | None = None,
    ) -> Iterator[Chunk]:
        """The text as it comes."""
        return iter(
            self.submit(
                Request(
                    prompt,
                    formula,
                    terms,
                    sampling,
                    stop,
                    speculation,
                    timeout,
                    grammar,
                    tools,
                    logprobs,
                    template_options,
                    ban,
                )
            )
        )

    async def agenerate(
        self,
        prompt: str | Sequence[Message],
        formula: str | Formula = "M",
        terms: Terms | None = None,
        sampling: Sampling = Sampling(),
        stop: Stop = Stop(),
        speculation: Speculation = "auto",
        timeout: float | None = None,
        grammar: Grammar | None = None,
        tools: Tools | None = None,
        logprobs: int | None = None,
        template_options: Mapping[str, Any] | None = None,
        ban: Ban | None = None,
    ) -> Completion:
        """The whole text, without holding up the event loop."""
        request = Request(
            prompt,
            formula,
            terms,
            sampling,
            stop,
            speculation,
            timeout,
            grammar,
            tools,
            logprobs,
            template_options,
            ban,
        )
        return await (await asyncio.to_thread(self.submit, request))

    async def astream(
        self,
        prompt: str | Sequence[Message],
        formula: str | Formula = "M",
        terms: Terms | None = None,
        sampling: Sampling = Sampling(),
        stop: Stop = Stop(),
        speculation: Speculation = "auto",
        timeout: float | None = None,
        grammar: Grammar | None = None,
        tools: Tools | None = None,
        logprobs: int | None = None,
        template_options: Mapping[str, Any] | None = None,
        ban: Ban | None = None,
    ) -> AsyncIterator[Chunk]:
        """The text as it comes, without holding up the event loop."""
        request = Request(
            prompt,
            formula,
            terms,
            sampling,
            stop,
            speculation,
            timeout,
            grammar,
            tools,
            logprobs,
            template_options,
            ban,
        )
        ticket = await asyncio.to_thread(self.submit, request)
        async with aclosing(ticket.__aiter__()) as chunks:  # type: ignore[type-var]  # a generator, typed as an iterator
            async for chunk in chunks:
                yield chunk
