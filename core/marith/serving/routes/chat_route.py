"""`POST /v1/chat/completions`."""

from __future__ import annotations

import time
from contextlib import ExitStack

from starlette.requests import Request as WebRequest
from starlette.responses import Response

from marith.serving.http.guard import KEY
from marith.serving.routes.answering import Answering
from marith.serving.server import Server
from marith.serving.wire.choice_events import ChoiceWriter
from marith.serving.wire.wire_answers import AnswerHead, ChatDeltas, chat_answer
from marith.serving.wire.wire_fields import ChatFields
from marith.serving.wire.wire_requests import chat_requests


async def chat(server: Server, web: WebRequest) -> Response:
    """One chat, whole or in events."""
    began = time.monotonic()
    with ExitStack() as place:
        place.enter_context(server.place_for(web))
        fields, persona = await server.fields(ChatFields, web)
        place.enter_context(server.more_places(web, fields.n))
        key = web.scope.get(KEY)
        asked = await server.runner.off_loop(
            lambda: chat_requests(fields, persona, server.settings, key)
        )
        tickets = await server.runner.begin(persona.engine, asked.requests)
        head = AnswerHead.of("chat.completion", persona.name, persona.fingerprint)
        answer = Answering(server, web, persona, len(asked.requests), tickets, began)
        if fields.streams:
            deltas = [ChatDeltas(i, bool(fields.logprobs)) for i in range(len(tickets))]
            return answer.stream(ChoiceWriter(head, asked, deltas), place.pop_all())
        found = await answer.whole()
        return await answer.json(chat_answer(head, asked, found), found)
