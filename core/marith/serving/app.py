"""The ASGI application: its routes, start and end."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request as WebRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from marith.serving.guard import Guard, origins_of
from marith.serving.openapi import Operation, openapi_document
from marith.serving.routes import about_routes, inspection_routes, text_routes, token_routes
from marith.serving.server import Server, keep_out_of_collections
from marith.serving.server_settings import ServerSettings, require_key
from marith.serving.wire.refusals import Refusal
from marith.serving.wire.wire_fields import (
    ChatFields,
    DetokenizeFields,
    ExplainFields,
    InspectFields,
    ScoreFields,
    TextFields,
    TokenizeFields,
    WhatIfFields,
)


async def openapi(server: Server, _: WebRequest) -> Response:
    """Return the OpenAPI document: every route, with its body."""
    write = partial(openapi_document, ROUTES, bool(server.settings.keys))
    return JSONResponse(await server.workers.off_loop(write))


ROUTES: dict[str, Operation] = {
    "/v1/chat/completions": Operation("POST", text_routes.chat, ChatFields),
    "/v1/completions": Operation("POST", text_routes.text, TextFields),
    "/v1/models": Operation("GET", about_routes.models),
    "/v1/models/{name:path}": Operation("GET", about_routes.model),
    "/v1/score": Operation("POST", token_routes.score, ScoreFields),
    "/v1/recipes": Operation("GET", about_routes.recipes),
    "/v1/explain": Operation("POST", about_routes.explain, ExplainFields),
    "/v1/inspect": Operation("POST", inspection_routes.inspect, InspectFields),
    "/v1/what_if": Operation("POST", inspection_routes.what_if, WhatIfFields),
    "/tokenize": Operation("POST", token_routes.tokenize, TokenizeFields),
    "/detokenize": Operation("POST", token_routes.detokenize, DetokenizeFields),
    "/tokenizer_info": Operation("GET", token_routes.tokenizer_info, query=("model",)),
    "/health": Operation("GET", about_routes.health),
    "/ready": Operation("GET", about_routes.ready),
    "/metrics": Operation("GET", about_routes.metrics),
    "/openapi.json": Operation("GET", openapi),
    "/": Operation("GET", about_routes.page),
    "/page/{file}": Operation("GET", about_routes.page_file),
}
_log = logging.getLogger(__name__)


def create_app(settings: ServerSettings) -> Starlette:
    """Return an application for any ASGI server. The models load when the server starts.

    Raises ModelError if other machines can reach one of `settings.hosts`, and `settings.keys` is
    empty.
    """
    for host in settings.hosts:
        require_key(host, settings.keys)
    return application(Server(settings), alone=True)


def application(server: Server, loads: bool = True, alone: bool = False) -> Starlette:
    """Return the application of a server. If `loads`, it loads the models before the first request.

    `alone` means that the process does nothing else, so loaded objects may be excluded from garbage
    collection.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if loads:
            await server.workers.off_loop(server.load)
            if alone:
                await server.workers.off_loop(keep_out_of_collections)
            _log.info("ready: %s", ", ".join(server.models.by_name))
        try:
            yield
        finally:
            server.draining = True
            server.workers.close()

    app = Starlette(
        routes=[
            Route(path, partial(operation.endpoint, server), methods=[operation.method])
            for path, operation in ROUTES.items()
        ],
        lifespan=lifespan,
        exception_handlers={404: _not_found, 405: _wrong_method},
    )
    app.add_middleware(Guard, settings=server.settings, failed=server.metrics.failed)
    # This middleware is outermost, so that allowed web pages can read refusals too.
    app.add_middleware(
        CORSMiddleware,
        allow_origins=origins_of(server.settings),
        allow_methods=("GET", "POST"),
        allow_headers=("*",),
        expose_headers=("x-request-id",),
    )
    app.state.server = server
    return app


_CHATS = "send chats to /v1/chat/completions"
# Paths of other servers, and what to write instead.
_ELSEWHERE: Mapping[str, str] = {
    "/v1/responses": f"the Responses API is not served: {_CHATS}, with OpenAI's SDK "
    "client.chat.completions.create(…), with LangChain ChatOpenAI(…, use_responses_api=False)",
    "/v1/messages": f"Anthropic's API is not served: {_CHATS}",
    "/v1/embeddings": "marith serves language models; embeddings are not served",
    "/api/chat": f"Ollama's API is not served: {_CHATS}",
    "/api/generate": f"Ollama's API is not served: {_CHATS}",
}


async def _not_found(web: WebRequest, _: Exception) -> Response:
    path = web.url.path
    without = path.replace("/v1", "")
    if path in _ELSEWHERE:
        advice = _ELSEWHERE[path]
    elif f"/v1{without}" in ROUTES:
        advice = f"write /v1{without:.80}: the client's base URL is http://…/v1"
    else:
        advice = "GET /openapi.json lists the paths"
    return Refusal(f"there is no path {path!r:.80}; {advice}", 404, "not_found").response()


async def _wrong_method(web: WebRequest, _: Exception) -> Response:
    problem = f"{web.url.path!r:.80} does not accept {web.method}"
    return Refusal(problem, 405, "wrong_method").response()
