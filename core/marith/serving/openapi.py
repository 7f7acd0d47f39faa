"""The OpenAPI document of all routes and bodies.

The schema of each body comes from the pydantic model that reads the body.
https://spec.openapis.org/oas/v3.1.1.html
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel, TypeAdapter
from starlette.requests import Request as WebRequest
from starlette.responses import Response

from marith import __version__
from marith.serving.guard import needs_key

if TYPE_CHECKING:
    from marith.serving.server import Server

Endpoint: TypeAlias = "Callable[[Server, WebRequest], Awaitable[Response]]"
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_SCHEMA = "#/components/schemas/{model}"
_ANSWER = "The answer, or OpenAI's error object"


@dataclass(frozen=True, slots=True)
class Operation:
    """A route: its method, its function, the body that it takes, and the names of its `query`."""

    method: str
    endpoint: Endpoint
    takes: type[BaseModel] | None = None
    query: tuple[str, ...] = ()


def openapi_path(path: str) -> str:
    """Return a path as OpenAPI writes it, without the converters of Starlette's parameters."""
    return _PARAMETER.sub(r"{\1}", path)


def openapi_document(routes: Mapping[str, Operation], has_keys: bool) -> dict[str, Any]:
    """Return the OpenAPI document of routes by their paths.

    If `has_keys`, all routes need a key, except the open ones.
    """
    bodies = [route.takes for route in routes.values() if route.takes]
    _, models = TypeAdapter.json_schemas(
        [(body, "validation", TypeAdapter(body)) for body in bodies], ref_template=_SCHEMA
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "marith",
            "version": __version__,
            "description": "Formulas over language models, served as models of OpenAI's API.",
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}] if has_keys else [],
        "paths": {
            openapi_path(path): _item(path, route, needs_key(path))
            for path, route in routes.items()
        },
        "components": {
            "schemas": models["$defs"],
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _item(path: str, operation: Operation, closed: bool) -> dict[str, Any]:
    """Return the entry of a path with its one method. An open path says that it needs no key."""
    summary, _, rest = (inspect.getdoc(operation.endpoint) or "").partition("\n")
    described: dict[str, Any] = {
        "operationId": operation.endpoint.__name__,
        "summary": summary,
        "description": " ".join(rest.split()),
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in _PARAMETER.findall(path)
        ]
        + [{"name": name, "in": "query", "schema": {"type": "string"}} for name in operation.query],
        "responses": {"default": {"description": _ANSWER}},
    }
    if operation.takes is not None:
        schema = {"$ref": _SCHEMA.format(model=operation.takes.__name__)}
        content = {"application/json": {"schema": schema}}
        described["requestBody"] = {"required": True, "content": content}
    if not closed:
        described["security"] = []
    return {operation.method.lower(): described}
