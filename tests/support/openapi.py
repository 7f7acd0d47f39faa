"""Answers held against what the OpenAPI document of their server says of them."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import httpx
from jsonschema import Draft202012Validator
from support.serving import events

# Objects whose names are no fields, each with a field beside it.
BY_NAME = [
    ("judgements", "terms"), ("judgements", "logprobs"), ("token_logprobs", "top_logprobs"),
    ("faithful", "terms"),
]  # fmt: skip


def resolved(document: Any, value: Any) -> Any:
    """What a reference refers to; anything else as it is."""
    while "$ref" in value:
        name, value = value["$ref"], document
        for part in name.removeprefix("#/").split("/"):
            value = value[part]
    return value


def response_for(document: Any, method: str, path: str, status: int) -> Any:
    """What the document says of the answers of a path, method and status."""
    for known, item in document["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]*", known), path) and method in item:
            answers = item[method]["responses"]
            return resolved(document, answers.get(str(status)) or answers["default"])
    return document["components"]["responses"]["error"]


def validator(document: Any, schema: Any) -> Draft202012Validator:
    return Draft202012Validator({**schema, "components": document["components"]})


def hold(document: Any, answer: httpx.Response) -> None:
    """Assert that an answer is as the document says, and that it would not be with a slip."""
    path, method = answer.request.url.path, answer.request.method.lower()
    described = response_for(document, method, path, answer.status_code)
    assert "x-request-id" in answer.headers
    kind = answer.headers["content-type"].partition(";")[0]
    content = described["content"]
    checks = validator(document, (content.get(kind) or content["*/*"])["schema"])
    if kind.startswith("text/") and kind != "text/event-stream":
        return
    whole = kind != "text/event-stream"
    values = [answer.json()] if whole else events(answer.text)
    for value in {shape(value): value for value in values}.values():
        checks.validate(value)
        if path != "/openapi.json":
            require_exact(checks, value)


def shape(value: Any) -> str:
    """The fields of some JSON, and which of them have nothing: events alike have one shape."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}:{shape(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return f"[{'|'.join({*map(shape, value)})}]"
    return type(value).__name__


def require_exact(checks: Draft202012Validator, value: Any) -> None:
    """Assert that the schema has every field of an answer by its name."""
    slipped = copy.deepcopy(value)
    for one in [*fields_of(slipped)]:
        for name in [*one]:
            one[f"{name}_"] = one.pop(name)
            assert not checks.is_valid(slipped), name
            one[name] = one.pop(f"{name}_")


def fields_of(value: Any) -> Iterator[dict[str, Any]]:
    """The objects of an answer whose names are fields; of a list its first."""
    if isinstance(value, list):
        for one in value[:1]:
            yield from fields_of(one)
    elif isinstance(value, dict):
        yield value
        for name, one in value.items():
            if not any(name == free and beside in value for beside, free in BY_NAME):
                yield from fields_of(one)
