"""JSON schemas as text: closed to properties that they do not name, and bounded in size."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from pydantic import BaseModel
from pydantic.errors import PydanticUserError

from marith.errors import RequestError, shown
from marith.request.checks import require_shallow

# The white space of `json.dumps`, which chat templates use, and so their models.
_AS_WRITTEN = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_HOLDS_SCHEMAS = ("properties", "$defs", "definitions", "patternProperties")
_LISTS_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_JOINS = ("anyOf", "oneOf", "allOf")
_IS_SCHEMA = ("items", "additionalProperties", "not")
EMPTY = {"type": "object", "properties": {}}
# Compilers recurse, and an overflow of a thread's stack ends the process.
LEVELS = 700  # of a schema and the definitions that it refers to: 2,100 overflowed the stack


def schema_of(schema: Mapping[str, Any] | type[BaseModel]) -> Mapping[str, Any]:
    """A JSON schema as it is, or that of a class of pydantic's. Raises RequestError."""
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        try:
            return schema.model_json_schema()
        except PydanticUserError as error:
            problem = f"{schema.__name__} has no JSON schema"
            raise RequestError(f"{problem}: {error.message}") from error
    if not isinstance(schema, Mapping):
        problem = "a JSON schema is a mapping, or a class of pydantic's"
        raise RequestError(f"{problem}, not {shown(schema)}")
    return schema


def schema_text(schema: Mapping[str, Any], strict: bool | None = None) -> str:
    """A JSON schema as text, with the white space of its JSON. Raises RequestError."""
    require_shallow(schema, "a JSON schema")
    try:
        return _written(json.dumps(schema, ensure_ascii=False), strict is not False)
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(f"this JSON schema is not JSON: {error}") from None


@lru_cache(maxsize=64)  # a model's tools are the same at every call
def _written(text: str, closes: bool) -> str:
    """The text of a schema, closed if `closes`, with the white space of its JSON."""
    schema = json.loads(text)
    closed = _closed(schema, _joined(schema)) if closes else schema
    return json.dumps({**closed, "x-guidance": _AS_WRITTEN}, ensure_ascii=False)


def _closed(schema: Any, left_open: frozenset[str], itself: bool = True) -> Any:
    """The schema, and those below it, closed to properties that they do not name.

    Schemas that describe the same object together are not closed, since each would forbid the
    properties of the others: members of `allOf`, for example, and definitions that such members
    refer to, which are named in `left_open`.
    """
    if not isinstance(schema, Mapping):
        return schema
    closed, together = dict(schema), len(_describing(schema)) > 1 or not itself
    for key in _HOLDS_SCHEMAS:
        if isinstance(schema.get(key), Mapping):
            closed[key] = {
                name: _closed(inner, left_open, f"#/{key}/{_escaped(name)}" not in left_open)
                for name, inner in schema[key].items()
            }
    for key in _LISTS_SCHEMAS:
        alone = not (together and key in _JOINS)
        if isinstance(schema.get(key), list):
            closed[key] = [_closed(member, left_open, alone) for member in schema[key]]
    for key in _IS_SCHEMA:
        if key in schema:
            closed[key] = _closed(schema[key], left_open)
    if "properties" in schema and not together:
        closed.setdefault("additionalProperties", False)
    return closed


def _describing(schema: Any) -> list[Any]:
    """The parts of a schema that name properties of its object independently of each other."""
    if not isinstance(schema, Mapping):
        return []
    keys = [key for key in ("properties", "$ref") if key in schema]
    groups = [[member] for member in _listed(schema, "allOf")]
    groups += [_listed(schema, key) for key in ("anyOf", "oneOf")]
    return keys + [group for group in groups if any(map(_describing, group))]


def _joined(schema: Mapping[str, Any]) -> frozenset[str]:
    """References to definitions that describe an object together with others, indirect ones too."""
    references = frozenset(_referred(schema))
    while True:
        targets = [target(schema, reference) for reference in references]
        more = references.union(*(_referred(target, together=True) for target in targets))
        if more == references:
            return references
        references = more


def _referred(schema: Any, together: bool = False) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        return
    together = together or len(_describing(schema)) > 1
    if together and "$ref" in schema:
        yield str(schema["$ref"])
    for key in _JOINS:
        for member in _listed(schema, key):
            yield from _referred(member, together)
    inner = [schema[key] for key in _IS_SCHEMA if key in schema] + _listed(schema, "prefixItems")
    for key in _HOLDS_SCHEMAS:
        by_name = schema.get(key)
        inner += by_name.values() if isinstance(by_name, Mapping) else ()
    for inner_schema in inner:
        yield from _referred(inner_schema)


def _escaped(name: str) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")


def _listed(schema: Mapping[str, Any], key: str) -> list[Any]:
    listed = schema.get(key)
    return listed if isinstance(listed, list) else []


def levels(schema: Any) -> int:
    """The levels of a schema and of all that it refers to, added up, which bounds its depth."""
    references: set[str] = set()
    deepest = _depth(schema, references)
    by_pointer = [ref for ref in references if ref == "#" or ref.startswith("#/")]
    targets = sum(_depth(target(schema, ref), set()) for ref in by_pointer)
    return deepest + targets + deepest * (len(references) - len(by_pointer))


def _depth(schema: Any, references: set[str]) -> int:
    """How deep a part of a schema is nested by itself; adds what it refers to to `references`."""
    deepest, waiting = 0, [(schema, 1)]
    while waiting:
        node, level = waiting.pop()
        deepest = max(deepest, level)
        if isinstance(node, Mapping) and isinstance(node.get("$ref"), str):
            references.add(node["$ref"])
        waiting += [(child, level + 1) for child in _children(node)]
    return deepest


def target(schema: Any, reference: str) -> Any:
    """The part of a schema that a reference (RFC 6901) points to; None if there is none."""
    for part in reference.removeprefix("#").split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        schema = schema.get(name) if isinstance(schema, Mapping) else None
    return schema


def _children(node: Any) -> Iterator[Any]:
    if isinstance(node, Mapping):
        yield from node.values()
    elif isinstance(node, list):
        yield from node
