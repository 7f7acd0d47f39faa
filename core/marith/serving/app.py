"""The application: its routes, how it begins, and how it ends."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache

from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request as WebRequest
from starlette.responses import Response
from starlette.routing import Route

from marith.serving.http.guard import Guard, origins_of
from marith.serving.routes import (
    about_routes,
    formula_routes,
    inspection_routes,
    page_routes,
    token_routes,
)
from marith.serving.routes.chat_route import chat
from marith.serving.routes.text_route import text
from marith.serving.schemas.openapi_document import (
    ANY_FILE,
    ANY_OBJECT,
    HTML,
    PLAIN,
    Endpoint,
    Operation,
    openapi_document,
)
from marith.serving.server import Server, keep_out_of_collections
from marith.serving.server_settings import ServerSettings, settings_of_environment
from marith.serving.wire.page_fields import (
    ExplainFields,
    InspectFields,
    PageKeyFields,
    WhatIfFields,
)
from marith.serving.wire.refusals import Refusal
from marith.serving.wire.wire_fields import (
    ChatFields,
    DetokenizeFields,
    ScoreFields,
    TextFields,
    TokenizeFields,
)


async def openapi(server: Server, _: WebRequest) -> Response:
    """This document: every route, what it takes and what it gives."""
    has_keys, has_page = bool(server.settings.keys), server.settings.page
    text = await server.runner.off_loop(lambda: _document(has_keys, has_page))
    return Response(text, media_type="application/json")


@cache
def _document(has_keys: bool, has_page: bool) -> str:
    return json.dumps(openapi_document(ROUTES, has_keys, has_page))


ROUTES: dict[str, Operation] = {
    "/v1/chat/completions": Operation(
        "POST", chat, ChatFields, {200: "ChatAnswer"}, ("ChatEvent", "Error")
    ),
    "/v1/completions": Operation(
        "POST", text, TextFields, {200: "TextAnswer"}, ("TextEvent", "Error")
    ),
    "/v1/models": Operation("GET", about_routes.models, None, {200: "ModelList"}),
    "/v1/models/{name:path}": Operation("GET", about_routes.model, None, {200: "ModelCard"}),
    "/v1/score": Operation("POST", token_routes.score, ScoreFields, {200: "Scores"}),
    "/v1/recipes": Operation("GET", formula_routes.recipes, None, {200: "RecipeList"}),
    "/v1/explain": Operation("POST", formula_routes.explain, ExplainFields, {200: "Explanation"}),
    "/v1/inspect": Operation(
        "POST", inspection_routes.inspect, InspectFields, {200: "InspectedText"}
    ),
    "/v1/what_if": Operation("POST", inspection_routes.what_if, WhatIfFields, {200: "WhatIf"}),
    "/tokenize": Operation("POST", token_routes.tokenize, TokenizeFields, {200: "TokenizeAnswer"}),
    "/detokenize": Operation(
        "POST", token_routes.detokenize, DetokenizeFields, {200: "DetokenizeAnswer"}
    ),
    "/tokenizer_info": Operation(
        "GET", token_routes.tokenizer_info, None, {200: "TokenizerInfo"}, query=("model",)
    ),
    "/health": Operation("GET", about_routes.health, None, {200: "Status", 503: "Status"}),
    "/ready": Operation("GET", about_routes.ready, None, {200: "Status", 503: "Status"}),
    "/metrics": Operation("GET", about_routes.metrics, None, {200: PLAIN}),
    "/openapi.json": Operation("GET", openapi, None, {200: ANY_OBJECT}),
    "/": Operation("GET", page_routes.page, None, {200: HTML}),
    "/page/{file}": Operation("GET", page_routes.page_file, None, {200: ANY_FILE}),
    "/page/key": Operation("POST", page_routes.page_key, PageKeyFields, {200: "PageKey"}),
}
_log = logging.getLogger(__name__)


def create_app(settings: ServerSettings | None = None) -> Starlette:
    """The ASGI application of some settings; models load when it starts.

    Without settings they are those of `settings_of_environment`. So
    `uvicorn marith.serving.app:create_app --factory` serves, and so does any other server of ASGI.
    """
    return application(Server(settings or settings_of_environment()), alone=True)


def application(server: Server, loads: bool = True, alone: bool = False) -> Starlette:
    """The application of a server; it `loads` its models before it takes requests, if at all.

    `alone` says that the process does nothing but serve.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if loads:
            await server.runner.off_loop(server.load)
            if alone:
                await server.runner.off_loop(keep_out_of_collections)
            _log.info("ready: %s", ", ".join(server.models.by_name))
        try:
            yield
        finally:
            server.draining = True
            server.runner.close()

    app = Starlette(
        routes=[
            Route(path, _endpoint(server, operation.endpoint), methods=[operation.method])
            for path, operation in ROUTES.items()
        ],
        lifespan=lifespan,
        exception_handlers={404: _not_found, 405: _wrong_method},
    )
    app.add_middleware(
        Guard, settings=server.settings, failed=lambda status: _failed(server, status)
    )
    app.add_middleware(  # outermost, so that pages can read refusals too
        CORSMiddleware,
        allow_origins=origins_of(server.settings),
        allow_methods=("GET", "POST"),
        allow_headers=("*",),
        expose_headers=("x-request-id",),
    )
    app.state.server = server
    return app


def _endpoint(server: Server, endpoint: Endpoint) -> Callable[[WebRequest], Awaitable[Response]]:
    async def answer(web: WebRequest) -> Response:
        return await endpoint(server, web)

    return answer


def _failed(server: Server, status: int) -> None:
    server.metrics.failed.labels(str(status)).inc()


async def _not_found(web: WebRequest, _: Exception) -> Response:
    known = ", ".join(ROUTES)
    return Refusal(
        f"there is no {web.url.path!r:.80} here, but {known}", 404, "not_found"
    ).response()


async def _wrong_method(web: WebRequest, _: Exception) -> Response:
    problem = f"{web.url.path!r:.80} takes no {web.method}"
    return Refusal(problem, 405, "wrong_method").response()
