"""Write JSON schemas for llguidance to enforce, and forbid properties that they do not name."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from llguidance import LLMatcher

from marith.errors import RequestError, shown
from marith.request.checks import require_shallow
from marith.request.forms.schema_formats import FORMATS, HELD, escaped

Node: TypeAlias = dict[str, Any]

# The values of these keywords map names to schemas.
HOLDS_SCHEMAS = ("properties", "$defs", "definitions", "patternProperties")
# The values of these keywords are lists of schemas.
LISTS_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
# The values of these keywords are schemas.
IS_SCHEMA = ("items", "additionalProperties", "additionalItems", "not", "propertyNames")
# The distance from an exclusive limit to the nearest number that is allowed.
_NEAR = 1e-12
# llguidance reads larger whole numbers as the nearest float.
_EXACT = 2**53
# Pydantic's pattern of a decimal number (until version 2.11) has a lookahead, which grammars do not
# support.
_SAME_PATTERN = {
    r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$": r"^[+-]?(\d+\.?\d*|\.\d+)$",
}
# The white space of `json.dumps`. Chat templates use it, so models were trained on it.
_AS_WRITTEN = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_JOINS = ("anyOf", "oneOf", "allOf")
_OF_OBJECTS = ("properties", "patternProperties", "additionalProperties")
EMPTY = {"type": "object", "properties": {}}
# Compilers recurse over a schema and its definitions, and an overflow of a thread's stack ends the
# process. 2,100 levels overflowed the stack.
LEVELS = 700


def enforce_keywords(schema: Node, drops_repeats: bool) -> None:
    """Change a schema in place so that llguidance enforces it. Its meaning stays the same.

    With `drops_repeats`, the program that reads the answer drops repeated items, so that
    `uniqueItems` need not be enforced. Raises RequestError for a keyword that cannot be enforced.
    """
    waiting: list[Any] = [schema]
    met: set[int] = set()
    known: dict[frozenset[int], list[str]] = {}
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict) or id(node) in met:
            continue
        met.add(id(node))
        _write_names_as_properties(node, schema)
        _move_bounds_inwards(node)
        _require_exact_constants(node)
        _write_format_as_pattern(node)
        _require_no_unique_items(node, drops_repeats)
        if "oneOf" in node or "anyOf" in node:
            _require_tags(node, schema, known)
        waiting += inner_schemas(node)
        if isinstance(node.get("$ref"), str):
            waiting.append(target(schema, node["$ref"]))


def inner_schemas(node: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the schemas directly inside a schema."""
    for key in HOLDS_SCHEMAS:
        by_name = node.get(key)
        yield from by_name.values() if isinstance(by_name, Mapping) else ()
    for key in (*LISTS_SCHEMAS, *IS_SCHEMA):
        value = node.get(key)
        yield from value if isinstance(value, list) else (value,)


def target(schema: Any, reference: str) -> Any:
    """Return the part of a schema that a reference (RFC 6901) points to, or None."""
    for part in reference.removeprefix("#").split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        schema = schema.get(name) if isinstance(schema, Mapping) else None
    return schema


def _resolved(node: Any, schema: Node) -> Any:
    """Return a schema, or the schema to which it refers if it has only a reference."""
    if isinstance(node, Mapping) and list(node) == ["$ref"] and isinstance(node["$ref"], str):
        return target(schema, node["$ref"])
    return node


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _move_bounds_inwards(node: Node) -> None:
    """Move the limits of a number inwards, because llguidance allows some numbers beyond them.

    For example, for numbers above 0 and up to 0.5 it also allows 0. An exclusive limit is moved by
    a trillionth, so that a program that rounds the number stays within the limit too.
    """
    for name, exclusive, inwards in (
        ("minimum", "exclusiveMinimum", math.inf),
        ("maximum", "exclusiveMaximum", -math.inf),
    ):
        if node.get(exclusive) is True and name in node:
            # Draft 4 writes an exclusive limit as a flag.
            node[exclusive] = node[name]
        for key in (name, exclusive):
            if _is_number(node.get(key)) and abs(node[key]) < 1e300:
                node[key] = _moved(node[key], inwards, key == exclusive)


def _moved(bound: float, inwards: float, excluded: bool) -> float:
    """Return the nearest float that a limit allows.

    An exclusive limit becomes a float strictly on the allowed side.
    """
    number = float(bound)
    pick: Callable[..., float] = max if inwards > 0 else min
    if excluded:
        near = math.copysign(_NEAR, inwards)
        return pick(math.nextafter(number, inwards), number + near)
    return number if pick(number, bound) == number else math.nextafter(number, inwards)


def _require_exact_constants(node: Node) -> None:
    """Raise RequestError for an integer in `const` or `enum` that llguidance would round."""
    for key in ("const", "enum"):
        for number in _large_numbers(node.get(key)):
            problem = f"{key!r} has the number {number}, and whole numbers beyond 2**53"
            raise RequestError(f"{problem} cannot be enforced; write it as a text")


def _large_numbers(value: Any) -> Iterator[int]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, int) and abs(each) > _EXACT:
            yield each
        elif isinstance(each, Mapping):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def _write_format_as_pattern(node: Node) -> None:
    """Write a format as a pattern, and drop an unknown format.

    A format without a pattern is an annotation (JSON Schema 2020-12, validation 7.2.1).
    """
    pattern, format_ = node.get("pattern"), node.get("format")
    if isinstance(pattern, str):
        node["pattern"] = _SAME_PATTERN.get(pattern, pattern)
    if not isinstance(format_, str) or format_ in HELD:
        return
    del node["format"]
    if format_ not in FORMATS:
        return
    patterns = [*FORMATS[format_], *([node["pattern"]] if "pattern" in node else [])]
    node["pattern"] = patterns.pop()
    if patterns:
        node["allOf"] = [*node.get("allOf", ()), *({"pattern": each} for each in patterns)]


def _write_names_as_properties(node: Node, schema: Node) -> None:
    """Write `propertyNames` as properties if it has only an `enum` or a `const`."""
    names = _resolved(node.get("propertyNames"), schema)
    if not isinstance(names, Mapping) or "properties" in node or "patternProperties" in node:
        return
    said = {key: value for key, value in names.items() if key not in ("title", "type")}
    values = node.get("additionalProperties", True)
    known = said.get("enum", [said.get("const")])
    if set(said) <= {"enum", "const"} and all(isinstance(name, str) for name in known):
        node["properties"] = dict.fromkeys(known, values)
        node["additionalProperties"] = False
        del node["propertyNames"]


def _require_no_unique_items(node: Node, drops_repeats: bool) -> None:
    """Drop `uniqueItems` if repeats are dropped or impossible; else raise RequestError.

    A grammar does not remember the items that it has read.
    """
    if not isinstance(node.get("uniqueItems"), bool) or not node.pop("uniqueItems"):
        return
    if not drops_repeats and node.get("maxItems") not in (0, 1):
        raise RequestError(
            "'uniqueItems' cannot be enforced; leave it out, and drop repeats when the answer "
            "is read"
        )


def _require_tags(node: Node, schema: Node, known: dict[frozenset[int], list[str]]) -> None:
    """Require the properties that tell the members of a union apart, such as `kind`.

    The schema of a pydantic class does not require a tag with a default, but pydantic refuses an
    object without the tag. Members with tags exclude each other, so their `oneOf` means `anyOf`.
    `known` caches the tags of a union by the ids of its members.
    """
    members = list(_members(node, schema))
    objects = {id(each): each for each in members if isinstance(each.get("properties"), dict)}
    discriminator = node.pop("discriminator", None)
    named = isinstance(discriminator, Mapping) and discriminator.get("propertyName")
    key = frozenset(objects)
    if key not in known:
        known[key] = _tags([each["properties"] for each in objects.values()])
    tags = [named] if named else known[key]
    for each in objects.values():
        required = each.get("required", [])
        missing = [tag for tag in tags if tag in each["properties"] and tag not in required]
        if missing and isinstance(required, list):
            each["required"] = [*required, *missing]
    apart = any(all(tag in each["properties"] for each in objects.values()) for tag in tags)
    if apart and len(objects) == len(members) and "oneOf" in node and "anyOf" not in node:
        node["anyOf"] = node.pop("oneOf")


def _members(node: Node, schema: Node) -> Iterator[Node]:
    """Yield the members of a union, and of unions that are written within it."""
    for member in (*_listed(node, "oneOf"), *_listed(node, "anyOf")):
        inner = list(_members(member, schema)) if isinstance(member, dict) else []
        if not inner and isinstance(resolved := _resolved(member, schema), dict):
            inner = [resolved]
        yield from inner


def _tags(objects: Sequence[Node]) -> list[str]:
    """Return the properties whose values tell all the objects apart.

    Every object lists the values that it allows for such a property, and no two objects list the
    same value.
    """
    if len(objects) < 2:
        return []
    tags = []
    for name in min(objects, key=len):
        given = [each.get(name) for each in objects]
        values = [json.dumps(value) for property_ in given for value in _given_values(property_)]
        if len(values) == len(set(values)) and all(map(_given_values, given)):
            tags.append(name)
    return tags


def _given_values(schema: Any) -> list[Any]:
    """Return the only values that a schema allows, or an empty list if it does not list them."""
    if not isinstance(schema, Mapping):
        return []
    return [schema["const"]] if "const" in schema else _listed(schema, "enum")


def other_than(names: Sequence[str]) -> str:
    """Return a pattern of all texts except `names`. Patterns of property names have no negation."""
    by_head: dict[str, list[str]] = {}
    for name in names:
        if name:
            by_head.setdefault(name[0], []).append(name[1:])
    if not by_head:
        return "(?s:.+)" if names else "(?s:.*)"
    others = "".join(map(escaped, by_head))
    some = [f"[^{others}](?s:.*)"]
    some += [escaped(head) + other_than(tails) for head, tails in by_head.items()]
    return f"({'|'.join(some if '' in names else ['', *some])})"


def enforce_free_names(node: Node, together: bool) -> None:
    """Forbid an unnamed property to have the name of a named property.

    The name stays forbidden if the answer writes it with escapes. If `together`, other schemas
    describe the same object too. Raises RequestError for `patternProperties` and `minProperties`
    that cannot be enforced.
    """
    named = [*node.get("properties", ()), *node.get("required", ())]
    patterns = node.get("patternProperties")
    if patterns:
        if together:
            problem = "'patternProperties' cannot be combined with other schemas of the same object"
            raise RequestError(f"{problem}, such as members of allOf; write one schema")
        for pattern in patterns:
            if named and not _is_text({"allOf": [{"pattern": pattern}, _without(named)]}):
                raise RequestError(
                    f"the pattern {shown(pattern)} in 'patternProperties' matches no name except "
                    "names in 'properties' and 'required'; write a property instead of the pattern"
                )
        node["additionalProperties"] = False
    values = node.get("additionalProperties", True)
    if not patterns and node.get("properties") and values is not False and not together:
        node["patternProperties"] = {_without([*node["properties"]])["pattern"]: values}
        node["additionalProperties"] = False
    free = node.get("additionalProperties", True) is not False or node.get("patternProperties")
    least = node.get("minProperties", 0)
    if free and isinstance(least, int) and least > len(set(node.get("required", ()))) + 1:
        problem = f"'minProperties' is {least}, but a property that the schema does not name may be"
        problem += " written twice; name the properties, or leave 'minProperties' out"
        raise RequestError(problem)


def _without(names: Sequence[str]) -> dict[str, str]:
    return {"pattern": f"^{other_than(list(dict.fromkeys(names)))}$"}


def _is_text(schema: Mapping[str, Any]) -> bool:
    """Return True if at least one text is valid under a schema of texts."""
    source = LLMatcher.grammar_from_json_schema(json.dumps({"type": "string", **schema}))
    return not LLMatcher.validate_grammar_with_warnings(source)[0]


def schema_text(
    schema: Mapping[str, Any], strict: bool | None = None, drops_repeats: bool = False
) -> str:
    """Return a JSON schema as text, which also sets the white space of the answer's JSON.

    Raises RequestError for an invalid schema.
    """
    require_shallow(schema, "a JSON schema")
    try:
        text = json.dumps(schema, ensure_ascii=False)
        text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(f"this JSON schema cannot be written as JSON: {error}") from None
    try:
        return _written(text, strict is not False, drops_repeats)
    except (AttributeError, TypeError):
        problem = "invalid JSON schema: the value of a keyword has the wrong type"
        raise RequestError(f"{problem}: {shown(schema)}") from None
    except RecursionError:
        raise RequestError("the name of a property in this JSON schema is too long") from None


# Applications repeat the same tools in every call.
@lru_cache(maxsize=64)
def _written(text: str, closes: bool, drops_repeats: bool) -> str:
    """Return the text of a schema, with the white space of its JSON.

    If `closes`, the schema forbids properties that it does not name.
    """
    schema = json.loads(text)
    enforce_keywords(schema, drops_repeats)
    closed = _closed(schema, _joined(schema), closes)
    return json.dumps({**closed, "x-guidance": _AS_WRITTEN}, ensure_ascii=False)


def _closed(schema: Any, left_open: frozenset[str], closes: bool, itself: bool = True) -> Any:
    """Return a schema. If `closes`, it and inner schemas forbid properties that they do not name.

    Schemas that describe one object together are not closed, because each would forbid the
    properties of the others. Examples are members of `allOf`, and definitions to which such members
    refer. `left_open` has the references to these definitions.
    """
    if isinstance(schema, list):
        # Draft 7 lists the schemas of an array's items in `items`.
        return [_closed(member, left_open, closes) for member in schema]
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
    enforce_free_names(closed, together)
    return closed


def _describing(schema: Any) -> list[Any]:
    """Return the parts of a schema that each name properties of its object.

    A part is a reference, the schema's own properties, one member of `allOf`, or all members of
    `anyOf` or of `oneOf`.
    """
    if not isinstance(schema, Mapping):
        return []
    keys = ["$ref"] if "$ref" in schema else []
    keys += ["names"] if any(key in schema for key in _OF_OBJECTS) else []
    groups = [[member] for member in _listed(schema, "allOf")]
    groups += [_listed(schema, key) for key in ("anyOf", "oneOf")]
    return keys + [group for group in groups if any(map(_describing, group))]


def _joined(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return references to definitions that describe one object together with other schemas."""
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
    """Return an upper bound on a schema's depth: its levels plus the levels of its definitions."""
    references: set[str] = set()
    deepest = _depth(schema, references)
    by_pointer = [ref for ref in references if ref == "#" or ref.startswith("#/")]
    targets = sum(_depth(target(schema, ref), set()) for ref in by_pointer)
    return deepest + targets + deepest * (len(references) - len(by_pointer))


def _depth(schema: Any, references: set[str]) -> int:
    """Return the depth of a part of a schema, and add its references to `references`."""
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
