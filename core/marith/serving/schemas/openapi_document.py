"""The OpenAPI document of some routes: https://spec.openapis.org/oas/v3.1.1.html."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request as WebRequest
from starlette.responses import Response

from marith import __version__
from marith.openai_format import without_titles
from marith.serving.http.guard import OPEN, needs_key
from marith.serving.schemas.answer_schemas import SCHEMAS, Schema, ref
from marith.serving.schemas.page_schemas import PAGE_SCHEMAS, inspection_schemas

if TYPE_CHECKING:
    from marith.serving.server import Server

Endpoint: TypeAlias = "Callable[[Server, WebRequest], Awaitable[Response]]"
# In place of a schema's name: the kind of a text, any file, any JSON.
PLAIN, HTML, ANY_FILE, ANY_OBJECT = "text/plain", "text/html", "*/*", "object"

_WHY = {
    400: "What was sent cannot be served; `param` is the field",
    401: "No key was given, or one that is not known",
    403: "A web page of this origin may not ask",
    404: "There is no such model or file, or what was kept is gone",
    408: "The body took too long to come",
    413: "The body is too large",
    415: "The body is not JSON as it is",
    421: "The server is not called so",
    429: "The engine or the key has too much to do",
    500: "The server failed",
    503: "The models are being loaded, or the server ends",
    504: "The answer took too long",
}
_OF_BODIES = (400, 404, 408, 413, 415, 429, 503, 504)
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_RAISES = re.compile(r"Raises \w+\.")  # what a reader of code alone needs
_ID: Mapping[str, Any] = {
    "description": "The id of the request: that of the request's own header, if it is harmless",
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
}
_RETRY: Mapping[str, Any] = {
    "description": "After how many seconds the same request may succeed; absent where it cannot",
    "schema": {"type": "string", "pattern": "^[0-9]+$"},
}
_SHOULD_RETRY: Mapping[str, Any] = {
    "description": "Whether the same request may succeed later",
    "schema": {"type": "string", "enum": ["true", "false"]},
}


@dataclass(frozen=True, slots=True)
class Operation:
    """A route: its method, what answers it, and what it takes and gives.

    `gives` has the name of a schema for each status; `streams` are those of the events, where an
    answer may come in events. `errors` are statuses beside those of every route and every body.
    """

    method: str
    endpoint: Endpoint
    takes: type[BaseModel] | None
    gives: Mapping[int, str]
    streams: tuple[str, ...] = ()
    errors: tuple[int, ...] = ()
    query: tuple[str, ...] = ()


def openapi_path(path: str) -> str:
    """A path as OpenAPI writes it: parameters without the kind that Starlette reads them by."""
    return _PARAMETER.sub(r"{\1}", path)


def openapi_document(
    routes: Mapping[str, Operation], has_keys: bool, has_page: bool
) -> dict[str, Any]:
    """The document of some routes by their paths; with `has_keys` all but the open ones need one.

    The page's files are open where the server `has_page`. Bodies are the pydantic models that read
    them.
    """
    models = list(dict.fromkeys(route.takes for route in routes.values() if route.takes))
    _, bodies = models_json_schema(
        [(model, "validation") for model in models], ref_template=ref("{model}")["$ref"]
    )
    sent = {name: without_titles(schema) for name, schema in bodies["$defs"].items()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "marith",
            "version": __version__,
            "description": "Formulas over language models, as models of OpenAI's wire.",
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}] if has_keys else [],
        "paths": {
            openapi_path(path): _item(path, route, needs_key(path, has_page))
            for path, route in routes.items()
        },
        "components": {
            "schemas": {**SCHEMAS, **PAGE_SCHEMAS, **inspection_schemas(), **sent},
            "headers": {
                "x-request-id": _ID, "retry-after": _RETRY, "x-should-retry": _SHOULD_RETRY,
            },
            "responses": {
                str(status): _error(why) for status, why in _WHY.items()
            } | {"error": _error("Any other error")},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }  # fmt: skip


def _item(path: str, operation: Operation, closed: bool) -> dict[str, Any]:
    """A path with its one method; one that is `closed` needs a key where the server has any."""
    text = _RAISES.sub("", inspect.getdoc(operation.endpoint) or "")
    summary, _, rest = text.partition("\n")
    described: dict[str, Any] = {
        "operationId": operation.endpoint.__name__,
        "summary": summary.strip(),
        "parameters": [*_parameters(path, operation)],
        "responses": _responses(path, operation, closed),
    }
    if rest.strip():
        described["description"] = " ".join(rest.split())
    if operation.takes is not None:
        content = {"application/json": {"schema": ref(operation.takes.__name__)}}
        described["requestBody"] = {"required": True, "content": content}
    if not closed:
        described["security"] = []
    return {operation.method.lower(): described}


def _parameters(path: str, operation: Operation) -> list[Schema]:
    text = {"schema": {"type": "string"}}
    in_path = [{"name": name, "in": "path", "required": True} for name in _PARAMETER.findall(path)]
    in_query = [{"name": name, "in": "query", "required": False} for name in operation.query]
    return [{**parameter, **text} for parameter in (*in_path, *in_query)]


def _responses(path: str, operation: Operation, closed: bool) -> dict[str, Any]:
    """What an operation answers by status; every other error is OpenAI's object too."""
    statuses = {403, 500, *operation.errors}
    statuses |= {421} if path not in OPEN else set()
    statuses |= {401} if closed else set()
    if operation.takes is not None:
        statuses |= {*_OF_BODIES}
    errors = {str(status): {"$ref": f"#/components/responses/{status}"} for status in statuses}
    given = {
        str(status): _answer(name, operation.streams) for status, name in operation.gives.items()
    }
    known = dict(sorted({**errors, **given}.items()))
    return {**known, "default": {"$ref": "#/components/responses/error"}}


def _answer(name: str, streams: Sequence[str]) -> dict[str, Any]:
    """An answer: whole, and where it streams the data of each event.

    A media type has no word for events in OpenAPI 3.1; their data's schema stands in its place, as
    in OpenAI's own document.
    """
    content: dict[str, Any] = {"application/json": {"schema": ref(name)}}
    if "/" in name:
        content = {name: {"schema": {"type": "string"}}}
    elif name == ANY_OBJECT:
        content = {"application/json": {"schema": {"type": "object"}}}
    if streams:
        content["text/event-stream"] = {"schema": {"anyOf": [*map(ref, streams)]}}
    headers = {"x-request-id": {"$ref": "#/components/headers/x-request-id"}}
    described = "The answer; with `stream` in events, each of which has the data of this schema"
    return {
        "description": described if streams else "The answer",
        "headers": headers,
        "content": content,
    }


def _error(why: str) -> dict[str, Any]:
    names = ("x-request-id", "retry-after", "x-should-retry")
    return {
        "description": why,
        "headers": {name: {"$ref": f"#/components/headers/{name}"} for name in names},
        "content": {"application/json": {"schema": ref("Error")}},
    }
