"""`POST /v1/responses`, of which nothing is kept."""

from __future__ import annotations

import time
from contextlib import ExitStack

from starlette.requests import Request as WebRequest
from starlette.responses import JSONResponse, Response

from marith import Chunk, ContextOverflow
from marith.serving.http.guard import KEY
from marith.serving.routes.answering import Answering
from marith.serving.server import Server
from marith.serving.wire.refusals import naming
from marith.serving.wire.response_answers import OutputItems, ResponseObject, ResponseWriter
from marith.serving.wire.response_fields import ResponseFields
from marith.serving.wire.response_requests import response_requests
from marith.serving.wire.wire_answers import AnswerHead


async def responses(server: Server, web: WebRequest) -> Response:
    """One answer in items, whole or in events."""
    began = time.monotonic()
    with ExitStack() as place:
        place.enter_context(server.place_for(web))
        fields, persona = await server.fields(ResponseFields, web)
        key = web.scope.get(KEY)
        asked = await server.runner.off_loop(
            lambda: response_requests(fields, persona, server.settings, key)
        )
        with naming("input", ContextOverflow):
            tickets = await server.runner.begin(persona.engine, asked.requests)
        response = ResponseObject(
            AnswerHead.of("response", persona.name, persona.fingerprint), fields, asked
        )
        items = OutputItems(fields.scores)
        answer = Answering(server, web, persona, 1, tickets, began)
        if fields.streams:
            return answer.stream(ResponseWriter(response, items), place.pop_all())

        def arrived(_: int, chunk: Chunk) -> None:
            for _event in items.of(chunk):
                pass  # the items are what is asked for

        [completion] = await answer.whole(arrived)
        return JSONResponse(response.ended(items.items, completion))
