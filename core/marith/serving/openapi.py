"""The OpenAPI document: what clients get, exactly, and of which routes.

The schemas describe what `wire/wire_answers.py`, `wire/refusals.py` and the routes write; the tests
hold answers of every route against them. https://spec.openapis.org/oas/v3.1.1.html
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

from marith import Inspection, __version__
from marith.openai_format import without_titles
from marith.serving.guard import needs_key
from marith.serving.wire.wire_answers import INSPECTION

if TYPE_CHECKING:
    from marith.serving.server import Server

Schema: TypeAlias = "dict[str, Any]"
Endpoint: TypeAlias = "Callable[[Server, WebRequest], Awaitable[Response]]"
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_ERROR = (
    "An error: `param` is the field that cannot be served; the header x-should-retry says whether "
    "the same request may succeed later, and retry-after after how many seconds"
)

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NULL: Schema = {"type": "null"}
FLAG: Schema = {"type": "boolean"}


def ref(name: str) -> Schema:
    """A schema of the document by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def always(value: str | bool) -> Schema:
    """The schema of one value."""
    return {"const": value}


def or_null(schema: Schema) -> Schema:
    """A value of a schema, or null."""
    return {"anyOf": [schema, NULL]}


def listed(schema: Schema) -> Schema:
    """A list of values of one schema."""
    return {"type": "array", "items": schema}


def mapped(schema: Schema) -> Schema:
    """An object whose names are anything, and whose values are of one schema."""
    return {"type": "object", "additionalProperties": schema}


def optional(schema: Schema) -> Schema:
    """A field of an object that may be absent."""
    return {"optional": schema}


def closed(**fields: Schema) -> Schema:
    """An object of these fields and no others."""
    return {
        "type": "object",
        "properties": {name: field.get("optional", field) for name, field in fields.items()},
        "additionalProperties": False,
        "required": [name for name, field in fields.items() if "optional" not in field],
    }


_FINISH: Schema = {"type": "string", "enum": ["stop", "length", "tool_calls"]}
_HEAD: Mapping[str, Schema] = {
    "id": TEXT, "created": COUNT, "model": TEXT, "system_fingerprint": TEXT,
}  # fmt: skip
_MARITH: Mapping[str, Schema] = {"marith": optional(ref("MarithNote"))}
_WITH_NULL_USAGE: Mapping[str, Schema] = {
    "usage": optional(or_null(ref("TokenUsage"))), **_MARITH,
}  # fmt: skip

SCHEMAS: Mapping[str, Schema] = {
    "Error": closed(
        error=closed(
            message=TEXT,
            type=TEXT,
            param=or_null(TEXT),
            code=or_null(TEXT),
            marith=optional(ref("FormulaFault")),
        )
    ),
    "FormulaFault": closed(problem=TEXT, text=TEXT, start=COUNT, end=COUNT),
    "Status": closed(status=TEXT),
    "TokenUsage": closed(
        prompt_tokens=COUNT,
        completion_tokens=COUNT,
        total_tokens=COUNT,
        prompt_tokens_details=closed(cached_tokens=COUNT),
        completion_tokens_details=closed(reasoning_tokens=COUNT),
    ),
    "MarithNote": closed(
        warnings=optional(listed(TEXT)),
        composition=optional(listed(ref("Costs"))),
        inspection=optional(listed(or_null(ref("Inspection")))),
    ),
    "Costs": closed(
        formula=TEXT,
        passes=COUNT,
        calls=COUNT,
        judgements=COUNT,
        seconds=NUMBER,
        drafted=COUNT,
        accepted=COUNT,
        terms=mapped(closed(prompt_tokens=COUNT, cached_tokens=COUNT, calls=COUNT)),
        stages=listed(closed(part=TEXT, evaluated=COUNT, stood=COUNT, predicted=NUMBER)),
        logprobs=optional(mapped(listed(or_null(NUMBER)))),
    ),
    "Alternative": closed(token=TEXT, bytes=listed(COUNT), logprob=NUMBER),
    "TokenLogprob": closed(
        token=TEXT, bytes=listed(COUNT), logprob=NUMBER, top_logprobs=listed(ref("Alternative"))
    ),
    "ChatLogprobs": closed(content=listed(ref("TokenLogprob")), refusal=NULL),
    "TextLogprobs": closed(
        tokens=listed(TEXT),
        token_logprobs=listed(or_null(NUMBER)),
        top_logprobs=listed(or_null(mapped(NUMBER))),
        text_offset=listed(COUNT),
    ),
    "ChatMessage": closed(
        role=always("assistant"),
        content=or_null(TEXT),
        refusal=NULL,
        reasoning_content=optional(TEXT),
        tool_calls=optional(
            listed(
                closed(id=TEXT, type=always("function"), function=closed(name=TEXT, arguments=TEXT))
            )
        ),
    ),
    "ChatAnswer": closed(
        **_HEAD,
        object=always("chat.completion"),
        choices=listed(
            closed(
                index=COUNT,
                message=ref("ChatMessage"),
                logprobs=or_null(ref("ChatLogprobs")),
                finish_reason=_FINISH,
                stop_reason=optional(TEXT),
            )
        ),
        usage=ref("TokenUsage"),
        **_MARITH,
    ),
    "ChatDelta": closed(
        role=optional(always("assistant")),
        content=optional(TEXT),
        reasoning_content=optional(TEXT),
        tool_calls=optional(
            listed(
                closed(
                    index=COUNT,
                    function=closed(arguments=TEXT, name=optional(TEXT)),
                    id=optional(TEXT),
                    type=optional(always("function")),
                )
            )
        ),
    ),
    "ChatEvent": closed(
        **_HEAD,
        object=always("chat.completion.chunk"),
        choices=listed(
            closed(
                index=COUNT,
                delta=ref("ChatDelta"),
                finish_reason=or_null(_FINISH),
                logprobs=optional(ref("ChatLogprobs")),
            )
        ),
        **_WITH_NULL_USAGE,
    ),
    "TextAnswer": closed(
        **_HEAD,
        object=always("text_completion"),
        choices=listed(
            closed(
                index=COUNT,
                text=TEXT,
                logprobs=or_null(ref("TextLogprobs")),
                finish_reason=_FINISH,
                stop_reason=optional(TEXT),
            )
        ),
        usage=ref("TokenUsage"),
        **_MARITH,
    ),
    "TextEvent": closed(
        **_HEAD,
        object=always("text_completion"),
        choices=listed(
            closed(
                index=COUNT,
                text=TEXT,
                logprobs=or_null(ref("TextLogprobs")),
                finish_reason=or_null(_FINISH),
            )
        ),
        **_WITH_NULL_USAGE,
    ),
    "ModelCard": closed(
        id=TEXT,
        object=always("model"),
        created=COUNT,
        owned_by=always("marith"),
        root=TEXT,
        parent=or_null(TEXT),
        max_model_len=COUNT,
        marith=closed(
            formula=TEXT,
            description=TEXT,
            system_fingerprint=TEXT,
            faithful=FLAG,
            options=listed(TEXT),
            terms=optional(mapped({"anyOf": [TEXT, closed(formula=TEXT)]})),
        ),
    ),
    "ModelList": closed(
        object=always("list"),
        data=listed(ref("ModelCard")),
        marith=closed(version=TEXT, allow_formulas=FLAG),
    ),
    "Scores": closed(
        object=always("score"),
        model=TEXT,
        tokens=listed(COUNT),
        logprobs=listed(NUMBER),
        is_likeliest=listed(FLAG),
        sum=NUMBER,
        **_MARITH,
    ),
    "TokenizeAnswer": closed(
        count=COUNT, max_model_len=COUNT, tokens=optional(listed(COUNT)), **_MARITH
    ),
    "DetokenizeAnswer": closed(prompt=TEXT, **_MARITH),
    "TokenizerInfo": closed(
        bos_token=or_null(TEXT),
        bos_token_id=or_null(COUNT),
        eos_token=or_null(TEXT),
        eos_token_id=or_null(COUNT),
        vocab_size=COUNT,
        max_model_len=COUNT,
    ),
    "PageKey": closed(key=TEXT),
    "RecipeList": closed(object=always("list"), data=listed(ref("Recipe"))),
    "Recipe": closed(name=TEXT, call=TEXT, summary=TEXT, source=TEXT),
    "InspectedText": closed(
        object=always(INSPECTION),
        model=TEXT,
        inspection=ref("Inspection"),
        **_MARITH,
    ),
    "WhatIf": closed(
        object=always("marith.what_if"),
        kept=TEXT,
        model=TEXT,
        formula=TEXT,
        numbers=listed(ref("FormulaNumber")),
        number=COUNT,
        values=listed(NUMBER),
        tokens=listed(listed(or_null(COUNT))),
        texts=listed(listed(or_null(TEXT))),
        first_flip=listed(or_null(COUNT)),
        flipped_to=listed(or_null(TEXT)),
        refused=listed(or_null(TEXT)),
        **_MARITH,
    ),
    "FormulaNumber": closed(
        index=COUNT, value=NUMBER, start=COUNT, end=COUNT, values=optional(listed(NUMBER))
    ),
    "Explanation": closed(
        object=always("marith.explanation"),
        formula=TEXT,
        normalised=TEXT,
        weight=TEXT,
        tree=listed(closed(depth=COUNT, text=TEXT)),
        warnings=listed(TEXT),
        numbers=listed(ref("FormulaNumber")),
        terms=listed(closed(name=TEXT, text=optional(TEXT), formula=optional(TEXT))),
        **_MARITH,
    ),
}


@dataclass(frozen=True, slots=True)
class Operation:
    """A route: its method, what answers it, and what it takes and gives.

    `gives` is the name of a schema, or a kind of content that has none; `streams` are schemas of
    the events, where an answer may come in events. `query` are names of parameters.
    """

    method: str
    endpoint: Endpoint
    takes: type[BaseModel] | None
    gives: str
    streams: tuple[str, ...] = ()
    statuses: tuple[int, ...] = (200,)
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
    bodies = [route.takes for route in routes.values() if route.takes]
    _, models = TypeAdapter.json_schemas(
        [
            (Inspection, "serialization", TypeAdapter(Inspection)),
            *((body, "validation", TypeAdapter(body)) for body in bodies),
        ],
        ref_template=ref("{model}")["$ref"],
    )
    described = {name: without_titles(schema) for name, schema in models["$defs"].items()}
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
            "schemas": {**SCHEMAS, **described},
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
    summary, _, rest = (inspect.getdoc(operation.endpoint) or "").partition("\n")
    described: dict[str, Any] = {
        "operationId": operation.endpoint.__name__,
        "summary": summary,
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
    kind, schema = "application/json", ref(operation.gives)
    if "/" in operation.gives:
        kind = operation.gives
        schema = {"type": "object" if kind == "application/json" else "string"}
    content, described = {kind: {"schema": schema}}, "The answer"
    if operation.streams:
        content["text/event-stream"] = {"schema": {"anyOf": [*map(ref, operation.streams)]}}
        described = "The answer; with `stream` in events, each of which has data of this schema"
    answer = {"description": described, "content": content}
    known = {str(status): answer for status in operation.statuses}
    return {**known, "default": {"$ref": "#/components/responses/error"}}
