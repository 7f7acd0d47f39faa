"""`POST /v1/chat/completions`."""

from __future__ import annotations

import time
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import ExitStack, aclosing
from typing import Any, TypeAlias

from starlette.requests import Request as WebRequest
from starlette.responses import JSONResponse, Response

from marith import Completion, MarithError, Ticket
from marith.serving.http.event_stream import EventStream, event
from marith.serving.http.guard import KEY
from marith.serving.http.until_gone import LEFT, chunks, completions
from marith.serving.served_models import ServedModel
from marith.serving.server import Server, note
from marith.serving.server_metrics import Pace
from marith.serving.wire.json_body import read_json
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

Deltas: TypeAlias = "Callable[[int], ChatDeltas | TextDeltas]"


async def chat(server: Server, web: WebRequest) -> Response:
    """One chat, whole or in events."""
    began = time.monotonic()
    body = await read_json(web, server.settings.bounds)
    with ExitStack() as place:
        place.enter_context(server.place_for(web))
        fields, persona = await server.fields(ChatFields, body)
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
    """One answer of some choices, whole or in events, and what is counted of it."""

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

    async def whole(self) -> list[Completion]:
        """All completions. Raises Refusal where the client leaves."""
        found = await completions(self._web, self._tickets)
        self._count(found)
        return found

    def stream(self, deltas: Deltas, place: ExitStack) -> EventStream:
        """The answer in events; the place among those of its key is given up at its end."""
        seconds = self._server.settings.bounds.write_seconds
        return EventStream(self._events(deltas, place), {}, seconds, self._failed)

    async def _events(self, deltas: Deltas, place: ExitStack) -> AsyncGenerator[bytes]:
        asked, fields, name = self._asked, self._asked.fields, self._persona.name
        with place:
            head: dict[str, Any] = self._head.fields(
                ".chunk" if self._head.kind == "chat.completion" else ""
            )
            also = {"usage": None} if fields.usage_in_stream else {}
            made = [deltas(i) for i in range(len(self._tickets))]
            paces = [Pace(self._server.metrics, name, self._began) for _ in made]
            for choice in filter(None, (one.first() for one in made)):
                yield event({**head, "choices": [choice], **also})
            async with aclosing(chunks(self._tickets)) as arriving:
                async for index, chunk in arriving:
                    paces[index].chunk(chunk)
                    for choice in made[index].of(chunk):
                        yield event({**head, "choices": [choice], **also})
            found = [ticket.result(0) for ticket in self._tickets]
            self._count(found)
            said = own(asked, found)
            if fields.usage_in_stream:
                taken = usage([one.usage for one in found])
                yield event({**head, "choices": [], "usage": taken, **said})
            elif said:
                yield event({**head, "choices": [], **said})

    def _count(self, found: Sequence[Completion]) -> None:
        for completion in found:
            self._server.metrics.completed(self._persona.name, completion, self._began)
        taken = [one.usage for one in found]
        counts = sum(one.completion_tokens for one in taken)
        note(self._web, model=self._persona.name, completion_tokens=counts, answers=len(found))
        if self._server.settings.log_texts:
            note(self._web, texts=[one.text for one in found])

    def _failed(self, error: BaseException) -> None:
        """A stream has ended with an error, or its client has left."""
        for ticket in self._tickets:
            if not ticket.ended:
                ticket.cancel()
        left = not isinstance(error, MarithError) and isinstance(error, OSError | CancelledError)
        status = LEFT if left else refusal(error).status
        note(self._web, ended=f"{type(error).__name__}", model=self._persona.name)
        self._server.metrics.failed.labels(str(status)).inc()
