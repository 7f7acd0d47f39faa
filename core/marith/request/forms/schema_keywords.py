"""Keywords of JSON schemas that llguidance reads wrongly: written otherwise, or refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, TypeAlias

from llguidance import LLMatcher

from marith.errors import RequestError, shown
from marith.request.forms.formats import FORMATS, HELD, escaped, text_of_length

Node: TypeAlias = dict[str, Any]

HOLDS_SCHEMAS = ("properties", "$defs", "definitions", "patternProperties")
LISTS_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
IS_SCHEMA = ("items", "additionalProperties", "additionalItems", "not", "propertyNames")
_NEAR = 1e-12  # how far from an exclusive bound the nearest number is that is written
_EXACT = 2**53  # llguidance reads larger whole numbers as the nearest float
_ARRAYS = 400  # of distinct values, written out for `uniqueItems`
_TYPES = {"string": str, "integer": int, "boolean": bool}
_KINDS: tuple[tuple[Sequence[str], type, str], ...] = (
    (HOLDS_SCHEMAS, dict, "an object of schemas"),
    (("required",), list, "a list of names"),
    (("enum",), list, "a list of values"),
    (("pattern",), str, "a regular expression"),
    (
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        int,
        "a whole number from 0 on",
    ),
)
# Pydantic's pattern of a decimal number (until version 2.11) looks ahead, which no grammar does.
_SAME_PATTERN = {
    r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$": r"^[+-]?(\d+\.?\d*|\.\d+)$",
}


def hold_keywords(schema: Node, drops_repeats: bool) -> None:
    """Change a schema, in place, into one that means the same and that llguidance holds.

    With `drops_repeats`, the reader of the answer drops repeated items, so that `uniqueItems` need
    not be held. Raises RequestError for a keyword that cannot be held.
    """
    waiting: list[Any] = [schema]
    met: set[int] = set()
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict) or id(node) in met:
            continue
        met.add(id(node))
        _require_kinds(node)
        _hold_names(node, schema)
        _hold_bounds(node)
        _hold_constants(node)
        _hold_texts(node)
        _hold_unique(node, schema, drops_repeats)
        waiting += inner_schemas(node)
        if isinstance(node.get("$ref"), str):
            waiting.append(target(schema, node["$ref"]))


def inner_schemas(node: Mapping[str, Any]) -> Iterator[Any]:
    """The schemas that are directly within a schema."""
    for key in HOLDS_SCHEMAS:
        by_name = node.get(key)
        yield from by_name.values() if isinstance(by_name, Mapping) else ()
    for key in (*LISTS_SCHEMAS, *IS_SCHEMA):
        value = node.get(key)
        yield from value if isinstance(value, list) else (value,)


def target(schema: Any, reference: str) -> Any:
    """The part of a schema that a reference (RFC 6901) points to; None if there is none."""
    for part in reference.removeprefix("#").split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        schema = schema.get(name) if isinstance(schema, Mapping) else None
    return schema


def _resolved(node: Any, schema: Node) -> Any:
    """A schema, or the one that it refers to and nothing else."""
    if isinstance(node, Mapping) and list(node) == ["$ref"] and isinstance(node["$ref"], str):
        return target(schema, node["$ref"])
    return node


def _require_kinds(node: Mapping[str, Any]) -> None:
    """Raise RequestError for a keyword whose value is of another kind."""
    for keys, kind, words in _KINDS:
        for key in keys:
            value: Any = node.get(key)
            fits = isinstance(value, kind) and not isinstance(value, bool)
            fits = fits and not (kind is int and value < 0)
            fits = fits and (key != "required" or all(isinstance(name, str) for name in value))
            if key in node and not fits:
                written = shown(json.dumps(value)).strip("'")
                raise RequestError(f"invalid JSON schema: {key!r} is {words}, not {written}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _hold_bounds(node: Node) -> None:
    """Move bounds inwards where llguidance would let through a number at or beyond them.

    Between 0, excluded, and 0.5 it writes 0. A bound that is excluded is therefore moved by a
    trillionth, so that a reader who rounds keeps to it too.
    """
    for name, exclusive, inwards in (
        ("minimum", "exclusiveMinimum", math.inf),
        ("maximum", "exclusiveMaximum", -math.inf),
    ):
        if node.get(exclusive) is True and name in node:  # as draft 4 writes it
            node[exclusive] = node[name]
        for key in (name, exclusive):
            if _is_number(node.get(key)) and abs(node[key]) < 1e300:
                node[key] = _moved(node[key], inwards, key == exclusive)


def _moved(bound: float, inwards: float, excluded: bool) -> float:
    """A bound as a float that is not outside of it, and inside of it if the bound is excluded."""
    number = float(bound)
    pick: Callable[..., float] = max if inwards > 0 else min
    if excluded:
        near = math.copysign(_NEAR, inwards)
        return pick(math.nextafter(number, inwards), number + near)
    return number if pick(number, bound) == number else math.nextafter(number, inwards)


def _hold_constants(node: Node) -> None:
    """Raises RequestError for a whole number in `const` or `enum` that would be another."""
    for key in ("const", "enum"):
        for number in _large_numbers(node.get(key)):
            problem = f"{key!r} has the number {number}, and whole numbers beyond 2**53"
            raise RequestError(f"{problem} cannot be held; write it as a text")


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


def _hold_texts(node: Node) -> None:
    """Write a format as a pattern of its own, and drop one that is not known.

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


def _hold_names(node: Node, schema: Node) -> None:
    """Write `propertyNames` as properties, or as a pattern of them, where nothing else is said."""
    names = _resolved(node.get("propertyNames"), schema)
    if not isinstance(names, Mapping) or "properties" in node or "patternProperties" in node:
        return
    _require_kinds(names)
    said = {key: value for key, value in names.items() if key not in ("title", "type")}
    values = node.get("additionalProperties", True)
    known = said.get("enum", [said.get("const")])
    if set(said) <= {"enum", "const"} and all(isinstance(name, str) for name in known):
        node["properties"] = dict.fromkeys(known, values)
    elif set(said) == {"pattern"}:
        node["patternProperties"] = {said["pattern"]: values}
    elif set(said) == {"format"} and len(FORMATS.get(str(said["format"]), ())) == 1:
        node["patternProperties"] = {FORMATS[said["format"]][0]: values}
    elif said and set(said) <= {"minLength", "maxLength"}:
        text = text_of_length(said.get("minLength", 0), said.get("maxLength", ""))
        node["patternProperties"] = {text: values}
    else:
        return
    del node["propertyNames"]
    node["additionalProperties"] = False


def _hold_unique(node: Node, schema: Node, drops_repeats: bool) -> None:
    """Write out the arrays of distinct values, where there are few. Raises RequestError."""
    if not isinstance(node.get("uniqueItems"), bool) or not node.pop("uniqueItems"):
        return
    if node.get("maxItems") in (0, 1):
        return
    values = _values(_resolved(node.get("items"), schema))
    plain = node.get("type") == "array" and not {"prefixItems", "enum", "const"} & set(node)
    least, most = node.get("minItems", 0), node.get("maxItems", len(values))
    if values and plain and isinstance(least, int) and isinstance(most, int):
        counts = range(least, min(most, len(values)) + 1)
        if 0 < sum(math.perm(len(values), count) for count in counts) <= _ARRAYS:
            node["enum"] = [list(some) for count in counts for some in permutations(values, count)]
            for key in ("items", "minItems", "maxItems"):
                node.pop(key, None)
            return
    if not drops_repeats:
        raise RequestError(
            "'uniqueItems' can be held for a few values of an enum alone; leave it out, and drop "
            "repeated items when the answer is read"
        )


def _values(items: Any) -> list[Any]:
    """The values that items may have, where they are an enum of one type; else none."""
    if not isinstance(items, Mapping):
        return []
    said = {key: value for key, value in items.items() if key not in ("title", "description")}
    if said == {"type": "boolean"}:
        return [False, True]
    known, kind = said.get("enum", []), _TYPES.get(str(said.get("type", "string")))
    one_kind = isinstance(known, list) and all(type(value) is kind for value in known)
    return list(dict.fromkeys(known)) if one_kind and set(said) <= {"type", "enum"} else []


def other_than(names: Sequence[str]) -> str:
    """A pattern of all texts but these; grammars have no negation in patterns of names."""
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


def hold_free_names(node: Node, together: bool) -> None:
    """Keep free names apart from named properties, escapes included.

    Raises RequestError for patterns of names and numbers of properties that cannot be held.
    """
    named = [*node.get("properties", ()), *node.get("required", ())]
    patterns = node.get("patternProperties")
    if patterns:
        if together:
            problem = "'patternProperties' cannot be held beside other schemas of the same object"
            raise RequestError(f"{problem}, such as those of allOf; write one schema of it")
        for pattern in patterns:
            if named and not _is_text({"allOf": [{"pattern": pattern}, _without(named)]}):
                raise RequestError(
                    f"'patternProperties' has {shown(pattern)}, which no name matches besides "
                    "those of 'properties' and 'required'; write it as a property alone"
                )
        node["additionalProperties"] = False
    values = node.get("additionalProperties", True)
    if not patterns and node.get("properties") and values is not False and not together:
        node["patternProperties"] = {_without([*node["properties"]])["pattern"]: values}
        node["additionalProperties"] = False
    free = node.get("additionalProperties", True) is not False or node.get("patternProperties")
    least = node.get("minProperties", 0)
    if free and isinstance(least, int) and least > len(set(node.get("required", ()))) + 1:
        problem = f"'minProperties' is {least}, but a name that the schema leaves free may be"
        raise RequestError(f"{problem} written twice; name the properties, or leave it out")


def _without(names: Sequence[str]) -> dict[str, str]:
    return {"pattern": f"^{other_than(list(dict.fromkeys(names)))}$"}


def _is_text(schema: Mapping[str, Any]) -> bool:
    """Whether any text follows a schema of texts."""
    source = LLMatcher.grammar_from_json_schema(json.dumps({"type": "string", **schema}))
    return not LLMatcher.validate_grammar_with_warnings(source)[0]
