"""JSON schemas as text: closed to properties that they do not name, and bounded in size."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from marith.errors import RequestError, shown
from marith.request.checks import require_shallow
from marith.request.forms.schema_keywords import (
    HOLDS_SCHEMAS,
    IS_SCHEMA,
    LISTS_SCHEMAS,
    hold_free_names,
    hold_keywords,
    inner_schemas,
    target,
)

# The white space of `json.dumps`, which chat templates use, and so their models.
_AS_WRITTEN = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_JOINS = ("anyOf", "oneOf", "allOf")
_OF_OBJECTS = ("properties", "patternProperties", "additionalProperties")
EMPTY = {"type": "object", "properties": {}}
# Compilers recurse, and an overflow of a thread's stack ends the process.
LEVELS = 700  # of a schema and the definitions that it refers to: 2,100 overflowed the stack


def schema_text(
    schema: Mapping[str, Any], strict: bool | None = None, drops_repeats: bool = False
) -> str:
    """A JSON schema as text, with the white space of its JSON. Raises RequestError."""
    require_shallow(schema, "a JSON schema")
    try:
        text = json.dumps(schema, ensure_ascii=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(f"this JSON schema is not JSON: {error}") from None
    try:
        return _written(text, strict is not False, drops_repeats)
    except (AttributeError, TypeError):
        problem = "invalid JSON schema: a keyword has a value of another kind"
        raise RequestError(f"{problem}: {shown(schema)}") from None
    except RecursionError:
        raise RequestError("a name of a property in this JSON schema is too long") from None


@lru_cache(maxsize=64)  # a model's tools are the same at every call
def _written(text: str, closes: bool, drops_repeats: bool) -> str:
    """The text of a schema, closed if `closes`, with the white space of its JSON."""
    schema = json.loads(text)
    hold_keywords(schema, drops_repeats)
    closed = _closed(schema, _joined(schema), closes)
    return json.dumps({**closed, "x-guidance": _AS_WRITTEN}, ensure_ascii=False)


def _closed(schema: Any, left_open: frozenset[str], closes: bool, itself: bool = True) -> Any:
    """The schema, and those below it, closed if `closes` to properties that they do not name.

    Schemas that describe the same object together are not closed, since each would forbid the
    properties of the others: members of `allOf`, for example, and definitions that such members
    refer to, which are named in `left_open`.
    """
    if not isinstance(schema, Mapping):
        return schema
    closed, together = dict(schema), len(_describing(schema)) > 1 or not itself
    for key in HOLDS_SCHEMAS:
        if isinstance(schema.get(key), Mapping):
            closed[key] = {
                name: _closed(
                    inner, left_open, closes, f"#/{key}/{_escaped(name)}" not in left_open
                )
                for name, inner in schema[key].items()
            }
    for key in LISTS_SCHEMAS:
        alone = not (together and key in _JOINS)
        if isinstance(schema.get(key), list):
            closed[key] = [_closed(member, left_open, closes, alone) for member in schema[key]]
    for key in IS_SCHEMA:
        if key in schema:
            closed[key] = _closed(schema[key], left_open, closes)
    named = "properties" in schema or "patternProperties" in schema
    if closes and named and not together:
        closed.setdefault("additionalProperties", False)
    hold_free_names(closed, together)
    return closed


def _describing(schema: Any) -> list[Any]:
    """The parts of a schema that name properties of its object independently of each other."""
    if not isinstance(schema, Mapping):
        return []
    keys = ["$ref"] if "$ref" in schema else []
    keys += ["names"] if any(key in schema for key in _OF_OBJECTS) else []
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
    members = [id(member) for key in _JOINS for member in _listed(schema, key)]
    for inner in inner_schemas(schema):
        if id(inner) not in members:
            yield from _referred(inner)


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


def circular(schema: Mapping[str, Any]) -> str:
    """Return a reference that leads back to itself with no value between; empty if none does."""
    nodes: dict[int, Mapping[str, Any]] = {}
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Mapping) or id(node) in nodes:
            continue
        nodes[id(node)] = node
        used = {key: value for key, value in node.items() if key not in ("$defs", "definitions")}
        waiting += [*inner_schemas(used), _target(node, schema)]
    left = dict(reversed(nodes.items()))  # those whose values are not known to end
    while ended := [key for key, node in left.items() if _ends(node, schema, left)]:
        for key in ended:
            del left[key]
    return next((str(node["$ref"]) for node in left.values() if "$ref" in node), "")


def _ends(node: Mapping[str, Any], schema: Any, left: Mapping[int, Any]) -> bool:
    """Return whether a value of a schema is complete without a value of a schema in `left`."""
    needed = [_target(node, schema), *_listed(node, "allOf")]
    choices = [_listed(node, key) for key in ("anyOf", "oneOf")]
    return not any(id(each) in left for each in needed) and not any(
        some and all(id(each) in left for each in some) for some in choices
    )


def _target(node: Mapping[str, Any], schema: Any) -> Any:
    reference = node.get("$ref")
    return target(schema, reference) if isinstance(reference, str) else None


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


def _children(node: Any) -> Iterator[Any]:
    if isinstance(node, Mapping):
        yield from node.values()
    elif isinstance(node, list):
        yield from node
