"""A JSON schema as text: closed where it names properties, and bounded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from marith.errors import RequestError, shown
from marith.request.checks import require_shallow

# As `json.dumps` writes it, and so as chat templates and their models do.
_AS_WRITTEN = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_HOLDS_SCHEMAS = ("properties", "$defs", "definitions", "patternProperties")
_LISTS_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_JOINS = ("anyOf", "oneOf", "allOf")
_IS_SCHEMA = ("items", "additionalProperties", "not")
EMPTY = {"type": "object", "properties": {}}
# Compilers recurse, and who takes more than a thread's stack ends the process.
LEVELS = 700  # of a schema, with those of each definition that it refers to: 2,100 took it


def schema_text(schema: Mapping[str, Any], strict: bool | None = None) -> str:
    """A JSON schema as text, with how its JSON is to be written. Raises RequestError."""
    if not isinstance(schema, Mapping):
        raise RequestError(f"a JSON schema is a mapping, not {shown(schema)}")
    require_shallow(schema, "a JSON schema")
    try:
        return _written(json.dumps(schema, ensure_ascii=False), strict is not False)
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(f"this JSON schema is not JSON: {error}") from None


@lru_cache(maxsize=64)  # a model's tools are the same at every call
def _written(schema: str, closes: bool) -> str:
    """The text of a schema, closed if asked for, with how its JSON is to be written."""
    read = json.loads(schema)
    closed = _closed(read, _joined(read)) if closes else read
    return json.dumps({**closed, "x-guidance": _AS_WRITTEN}, ensure_ascii=False)


def _closed(schema: Any, left_open: frozenset[str], itself: bool = True) -> Any:
    """The schema with no room for properties that it does not name, in it and below it.

    Schemas that describe one object together, those of `left_open` among them, are not closed
    themselves: each would shut the others' properties out.
    """
    if not isinstance(schema, Mapping):
        return schema
    closed, together = dict(schema), len(_describing(schema)) > 1 or not itself
    for key in _HOLDS_SCHEMAS:
        if isinstance(schema.get(key), Mapping):
            closed[key] = {
                name: _closed(each, left_open, f"#/{key}/{_escaped(name)}" not in left_open)
                for name, each in schema[key].items()
            }
    for key in _LISTS_SCHEMAS:
        alone = not (together and key in _JOINS)
        if isinstance(schema.get(key), list):
            closed[key] = [_closed(each, left_open, alone) for each in schema[key]]
    for key in _IS_SCHEMA:
        if key in schema:
            closed[key] = _closed(schema[key], left_open)
    if "properties" in schema and not together:
        closed.setdefault("additionalProperties", False)
    return closed


def _describing(schema: Any) -> list[Any]:
    """The parts of a schema that name properties of its object, each in its own way."""
    if not isinstance(schema, Mapping):
        return []
    own = [key for key in ("properties", "$ref") if key in schema]
    members = [[each] for each in _listed(schema, "allOf")]
    members += [_listed(schema, key) for key in ("anyOf", "oneOf")]
    return own + [some for some in members if any(map(_describing, some))]


def _joined(schema: Mapping[str, Any]) -> frozenset[str]:
    """What is referred to as one of several parts of an object, by way of others too."""
    found = frozenset(_referred(schema))
    while True:
        targets = [target(schema, reference) for reference in found]
        more = found.union(*(_referred(target, together=True) for target in targets))
        if more == found:
            return found
        found = more


def _referred(schema: Any, together: bool = False) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        return
    together = together or len(_describing(schema)) > 1
    if together and "$ref" in schema:
        yield str(schema["$ref"])
    for key in _JOINS:
        for each in _listed(schema, key):
            yield from _referred(each, together)
    inner = [schema[key] for key in _IS_SCHEMA if key in schema] + _listed(schema, "prefixItems")
    for key in _HOLDS_SCHEMAS:
        held = schema.get(key)
        inner += held.values() if isinstance(held, Mapping) else ()
    for each in inner:
        yield from _referred(each)


def _escaped(name: str) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")


def _listed(schema: Mapping[str, Any], key: str) -> list[Any]:
    listed = schema.get(key)
    return listed if isinstance(listed, list) else []


def levels(schema: Any) -> int:
    """The levels of a schema and of all that it refers to, together: none can nest deeper."""
    references: set[str] = set()
    deepest = _depth(schema, references)
    by_pointer = [each for each in references if each == "#" or each.startswith("#/")]
    targets = sum(_depth(target(schema, each), set()) for each in by_pointer)
    return deepest + targets + deepest * (len(references) - len(by_pointer))


def _depth(schema: Any, references: set[str]) -> int:
    """How deep a part of a schema is nested by itself; notes what it refers to."""
    deepest, waiting = 0, [(schema, 1)]
    while waiting:
        node, level = waiting.pop()
        deepest = max(deepest, level)
        if isinstance(node, Mapping) and isinstance(node.get("$ref"), str):
            references.add(node["$ref"])
        waiting += [(child, level + 1) for child in _children(node)]
    return deepest


def target(schema: Any, reference: str) -> Any:
    """What a reference of RFC 6901 points to; None for nothing."""
    for part in reference.removeprefix("#").split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        schema = schema.get(name) if isinstance(schema, Mapping) else None
    return schema


def _children(node: Any) -> Iterator[Any]:
    if isinstance(node, Mapping):
        yield from node.values()
    elif isinstance(node, list):
        yield from node
