"""The OpenAPI document of some routes: https://spec.openapis.org/oas/v3.1.1.html."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request as WebRequest
from starlette.responses import Response

from marith import __version__
from marith.openai_format import without_titles
from marith.serving.http.guard import needs_key
from marith.serving.schemas.answer_schemas import SCHEMAS, Schema, ref
from marith.serving.schemas.page_schemas import PAGE_SCHEMAS, inspection_schemas

if TYPE_CHECKING:
    from marith.serving.server import Server

Endpoint: TypeAlias = "Callable[[Server, WebRequest], Awaitable[Response]]"
# In place of a schema's name: the kind of a text, any file, any JSON.
PLAIN, HTML, ANY_FILE, ANY_OBJECT = "text/plain", "text/html", "*/*", "object"
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_RAISES = re.compile(r"Raises \w+\.")  # what a reader of code alone needs
_ERROR = (
    "An error: `param` is the field that cannot be served; the header x-should-retry says whether "
    "the same request may succeed later, and retry-after after how many seconds"
)


@dataclass(frozen=True, slots=True)
class Operation:
    """A route: its method, what answers it, and what it takes and gives.

    `gives` has the name of a schema for each status; `streams` are those of the events, where an
    answer may come in events. `query` are names of parameters.
    """

    method: str
    endpoint: Endpoint
    takes: type[BaseModel] | None
    gives: Mapping[int, str]
    streams: tuple[str, ...] = ()
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
            "responses": {
                "error": {
                    "description": _ERROR,
                    "content": {"application/json": {"schema": ref("Error")}},
                }
            },
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
        "responses": _responses(operation),
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


def _responses(operation: Operation) -> dict[str, Any]:
    """What an operation answers by status; every error is OpenAI's object.

    A media type has no word for events in OpenAPI 3.1; the schema of their data stands in its
    place, as in OpenAI's own document.
    """
    known = {}
    for status, name in operation.gives.items():
        kind, schema = "application/json", ref(name)
        if "/" in name:
            kind, schema = name, {"type": "string"}
        elif name == ANY_OBJECT:
            schema = {"type": "object"}
        content = {kind: {"schema": schema}}
        if operation.streams:
            content["text/event-stream"] = {"schema": {"anyOf": [*map(ref, operation.streams)]}}
        described = "The answer; with `stream` in events, each of which has data of this schema"
        known[str(status)] = {
            "description": described if operation.streams else "The answer",
            "content": content,
        }
    return {**known, "default": {"$ref": "#/components/responses/error"}}
