"""`POST /v1/chat/completions`."""

from __future__ import annotations

import logging
import time
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, aclosing
from typing import Any, TypeAlias

from starlette.requests import Request as WebRequest
from starlette.responses import JSONResponse, Response

from marith import Chunk, Completion, MarithError, Ticket
from marith.serving.http.event_stream import EventStream, EventWriter
from marith.serving.http.guard import ID, KEY
from marith.serving.http.until_gone import LEFT, cancel, chunks, completions
from marith.serving.served_models import ServedModel
from marith.serving.server import Server, note
from marith.serving.server_metrics import Pace
from marith.serving.wire.refusals import refusal
from marith.serving.wire.wire_answers import (
    AnswerHead,
    ChatDeltas,
    TextDeltas,
    chat_answer,
    own,
    usage,
)
from marith.serving.wire.wire_fields import ChatFields
from marith.serving.wire.wire_requests import WireRequest, chat_requests

_log = logging.getLogger(__name__)
TIMED_OUT = 504
Deltas: TypeAlias = "Callable[[int], ChatDeltas | TextDeltas]"


async def chat(server: Server, web: WebRequest) -> Response:
    """One chat, whole or in events."""
    began = time.monotonic()
    with ExitStack() as place:
        place.enter_context(server.place_for(web))
        fields, persona = await server.fields(ChatFields, web)
        place.enter_context(server.place_for(web, server.more(fields.n)))
        salt = web.scope.get(KEY)
        asked = await server.runner.off_loop(
            lambda: chat_requests(fields, persona, server.settings, salt)
        )
        tickets = await server.runner.begin(persona.engine, asked.requests)
        head = AnswerHead.of("chat.completion", persona.name, persona.fingerprint)
        answer = Answering(server, web, persona, asked, head, tickets, began)
        if fields.streams:
            return answer.stream(lambda i: ChatDeltas(i, bool(fields.logprobs)), place.pop_all())
        found = await answer.whole()
        return JSONResponse(chat_answer(head, asked, found))


class Answering:
    """One answer of some choices, whole or in events, and what is counted of it.

    Each prompt has so many of the tickets as the request `asked` has choices.
    """

    def __init__(
        self,
        server: Server,
        web: WebRequest,
        persona: ServedModel,
        asked: WireRequest,
        head: AnswerHead,
        tickets: Sequence[Ticket],
        began: float,
    ) -> None:
        self._server, self._web, self._persona = server, web, persona
        self._asked, self._head, self._tickets, self._began = asked, head, tickets, began
        self._paces = [Pace(server.metrics, persona.name, began) for _ in tickets]

    @property
    def each(self) -> int:
        """How many choices each prompt has."""
        return len(self._asked.requests)

    async def whole(self) -> list[Completion]:
        """All completions. Raises Refusal where the client leaves."""
        try:
            found = await completions(self._web, self._tickets, self._arrived)
        except BaseException:
            self._abandon()
            raise
        self._count(found)
        return found

    def stream(self, deltas: Deltas, place: ExitStack) -> EventStream:
        """The answer in events; the place among those of its key is given up at its end."""
        seconds = self._server.settings.bounds.write_seconds
        return EventStream(self._events(deltas), {}, seconds, self._failed, place.close)

    async def _events(self, deltas: Deltas) -> AsyncGenerator[bytes]:
        """Each event as it comes. What marith says goes with the last ones."""
        asked, with_usage = self._asked, self._asked.fields.usage_in_stream
        suffix = ".chunk" if self._head.kind == "chat.completion" else ""
        events, also = EventWriter(self._head.fields(suffix)), {"usage": None} if with_usage else {}
        made = [deltas(i) for i in range(len(self._tickets))]
        for choice in filter(None, (one.first() for one in made)):
            yield events.of([choice], **also)
        says = bool(asked.warnings or asked.fields.marith.composition) and not with_usage
        last: list[dict[str, Any]] = []
        async with aclosing(chunks(self._tickets)) as arriving:
            async for index, chunk in arriving:
                self._arrived(index, chunk)
                for choice in made[index].of(chunk):
                    if says and choice["finish_reason"] is not None:
                        last.append(choice)
                        continue
                    yield events.of([choice], **also)
        found = [ticket.result(0) for ticket in self._tickets]
        self._count(found)
        said = own(asked, found)
        for choice in last:
            yield events.of([choice], **said)
        if with_usage:
            taken = usage([one.usage for one in found], self.each)
            yield events.of([], usage=taken, **said)

    def _arrived(self, index: int, chunk: Chunk) -> None:
        self._paces[index].chunk(chunk)

    def _count(self, found: Sequence[Completion]) -> None:
        name, metrics = self._persona.name, self._server.metrics
        for completion in found:
            metrics.completed(name, completion, self._began)
        for completion in found[:: self.each]:
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
