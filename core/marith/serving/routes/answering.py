"""One answer of the engine, whole or in events, and what is counted of it."""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import ExitStack, aclosing
from typing import Any

from starlette.requests import Request as WebRequest
from starlette.responses import JSONResponse, Response

from marith import Chunk, Completion, MarithError, Ticket
from marith.serving.http.event_stream import EventStream
from marith.serving.http.guard import ID
from marith.serving.http.until_gone import LEFT, cancel, chunks, completions
from marith.serving.served_models import ServedModel
from marith.serving.server import Server, note
from marith.serving.server_metrics import Pace
from marith.serving.wire.choice_events import ChoiceWriter
from marith.serving.wire.inspected_answers import with_inspections
from marith.serving.wire.refusals import refusal

_log = logging.getLogger(__name__)
TIMED_OUT = 504


class Answering:
    """One answer of some choices, whole or in events, and what is counted of it.

    There are as many tickets as choices of all prompts, and `each` choices of each prompt.
    """

    def __init__(
        self,
        server: Server,
        web: WebRequest,
        persona: ServedModel,
        each: int,
        tickets: Sequence[Ticket],
        began: float,
    ) -> None:
        self._server, self._web, self._persona = server, web, persona
        self._each, self._tickets, self._began = each, tickets, began
        self._paces = [Pace(server.metrics, persona.name, began) for _ in tickets]

    async def whole(self) -> list[Completion]:
        """All completions. Raises Refusal where the client leaves."""
        try:
            found = await completions(self._web, self._tickets, self._arrived)
        except BaseException:
            self._abandon()
            raise
        self._count(found)
        return self._shown(found)

    def stream(self, writer: ChoiceWriter, place: ExitStack) -> EventStream:
        """The answer in events; the place among those of its key is given up at its end."""
        seconds = self._server.settings.bounds.write_seconds
        source = self._events(writer)
        return EventStream(source, seconds, self._failed, writer.closing, place.close)

    async def json(self, answer: Mapping[str, Any], found: Sequence[Completion]) -> Response:
        """An answer that does not stream, with the inspections of its completions."""
        if not any(completion.inspection for completion in found):
            return JSONResponse(answer)
        data = await self._server.runner.off_loop(lambda: with_inspections(answer, found))
        return Response(data, media_type="application/json")

    async def _events(self, writer: ChoiceWriter) -> AsyncGenerator[bytes]:
        """Each event as it comes."""
        for data in writer.first():
            yield data
        async with aclosing(chunks(self._tickets)) as arriving:
            async for index, chunk in arriving:
                self._arrived(index, chunk)
                for data in writer.of(index, chunk):
                    yield data
        found = [ticket.result(0) for ticket in self._tickets]
        self._count(found)
        found = self._shown(found)
        last = writer.last(found)
        if any(completion.inspection for completion in found):
            last = iter(await self._server.runner.off_loop(lambda: [*writer.last(found)]))
        for data in last:
            yield data

    def _shown(self, found: Sequence[Completion]) -> list[Completion]:
        """The completions without the texts of terms, unless clients may bring terms."""
        if self._server.settings.allow_formulas:
            return [*found]
        names = self._persona.options.names_of_terms
        return [completion.without_texts(names) for completion in found]

    def _arrived(self, index: int, chunk: Chunk) -> None:
        self._paces[index].chunk(chunk)

    def _count(self, found: Sequence[Completion]) -> None:
        name, metrics = self._persona.name, self._server.metrics
        for completion in found:
            metrics.completed(name, completion, self._began)
        for completion in found[:: self._each]:
            metrics.read(name, completion.usage.prompt_tokens, completion.usage.cached_tokens)
        counts = sum(one.usage.completion_tokens for one in found)
        note(self._web, model=name, completion_tokens=counts, answers=len(found))
        if self._server.settings.log_texts:
            note(self._web, texts=[one.text for one in found])

    def _abandon(self) -> None:
        cancel(self._tickets)
        for pace in self._paces:
            pace.abandoned()

    def _failed(self, error: BaseException) -> None:
        """A stream has ended with an error, or its client has left."""
        self._abandon()
        left = not isinstance(error, MarithError) and isinstance(error, OSError | CancelledError)
        status = LEFT if left else refusal(error).status
        if status >= 500 and status != TIMED_OUT:
            _log.error("the stream of %s failed", self._web.scope[ID], exc_info=error)
        note(self._web, ended=f"{type(error).__name__}", model=self._persona.name)
        self._server.metrics.failed.labels(str(status)).inc()
