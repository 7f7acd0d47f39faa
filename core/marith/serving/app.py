"""The application: its routes, how it begins, and how it ends."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from starlette.applications import Starlette
from starlette.requests import Request as WebRequest
from starlette.responses import Response
from starlette.routing import Route

from marith.serving.http.guard import Guard
from marith.serving.routes import about_routes, token_routes
from marith.serving.routes.chat_route import chat
from marith.serving.routes.text_route import text
from marith.serving.server import Server, keep_out_of_collections
from marith.serving.server_settings import ServerSettings, read_keys
from marith.serving.wire.refusals import Refusal

Endpoint: TypeAlias = Callable[[Server, WebRequest], Awaitable[Response]]
ROUTES: dict[str, tuple[str, Endpoint]] = {
    "/v1/chat/completions": ("POST", chat),
    "/v1/completions": ("POST", text),
    "/v1/models": ("GET", about_routes.models),
    "/v1/models/{name:path}": ("GET", about_routes.model),
    "/v1/score": ("POST", token_routes.score),
    "/v1/embeddings": ("POST", about_routes.embeddings),
    "/tokenize": ("POST", token_routes.tokenize),
    "/detokenize": ("POST", token_routes.detokenize),
    "/tokenizer_info": ("GET", token_routes.tokenizer_info),
    "/health": ("GET", about_routes.health),
    "/ready": ("GET", about_routes.ready),
    "/metrics": ("GET", about_routes.metrics),
}
_log = logging.getLogger(__name__)


def create_app(settings: ServerSettings | None = None) -> Starlette:
    """The ASGI application of some settings; models load when it starts.

    Without settings they are read from the environment: MARITH_FILE, MARITH_API_KEYS. So
    `uvicorn marith.serving.app:create_app --factory` serves, and so does any other server of ASGI.
    """
    if settings is None:
        file = os.environ.get("MARITH_FILE")
        settings = ServerSettings(Path(file) if file else None, keys=read_keys(None))
    return application(Server(settings), alone=True)


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
            Route(path, _endpoint(server, endpoint), methods=[method])
            for path, (method, endpoint) in ROUTES.items()
        ],
        lifespan=lifespan,
        exception_handlers={404: _not_found, 405: _wrong_method},
    )
    app.add_middleware(
        Guard, settings=server.settings, failed=lambda status: _failed(server, status)
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
