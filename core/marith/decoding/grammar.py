"""Which texts are allowed: a JSON schema, a regular expression or a grammar, as plain data."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from llguidance import LLMatcher

from marith.decoding.bounds import LIMITS, require_bounded, target
from marith.errors import RequestError, shown
from marith.plain_data import require_shallow

# As `json.dumps` writes it, and so as chat templates and their models do.
_AS_WRITTEN = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_HOLDS_SCHEMAS = ("properties", "$defs", "definitions", "patternProperties")
_LISTS_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_JOINS = ("anyOf", "oneOf", "allOf")
_IS_SCHEMA = ("items", "additionalProperties", "not")
_MAKE: dict[str, Callable[[str], str]] = {
    "json_schema": LLMatcher.grammar_from_json_schema,
    "regex": LLMatcher.grammar_from_regex,
    "lark": LLMatcher.grammar_from_lark,
}
EMPTY = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class Grammar:
    """What a whole text may be. Style is steered by the formula, syntax is certain by this.

    Made by `json_schema`, `json_object`, `regex` or `lark`, and checked when it is made: raises
    RequestError for what is no grammar, and for what a schema asks that cannot be enforced.
    `text` is the definition; see llguidance for Lark's dialect.
    """

    kind: Literal["json_schema", "regex", "lark"]
    text: str
    source: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise RequestError(f"a {self.kind} is a text, not {shown(self.text)}")
        if self.kind not in tuple(_MAKE):
            raise RequestError(f"a grammar is {', '.join(_MAKE)}, not {shown(self.kind)}")
        require_bounded(self.kind, self.text)
        try:
            source = _MAKE[self.kind](self.text)
        except ValueError as error:
            raise RequestError(f"no {self.kind}: {error}: {shown(self.text[:80])}") from None
        wrong, problems = LLMatcher.validate_grammar_with_warnings(source, limits=LIMITS)
        if wrong:
            raise RequestError(f"this {self.kind} cannot be followed: {one_line(problems[0])}")
        object.__setattr__(self, "source", source)

    @classmethod
    def json_schema(cls, schema: Mapping[str, Any], strict: bool | None = None) -> Grammar:
        """JSON that a schema describes, its keys in the schema's order.

        Objects hold nothing but the properties they name, unless they say so themselves or
        `strict` is False.
        """
        return cls("json_schema", schema_text(schema, strict))

    @classmethod
    def json_object(cls) -> Grammar:
        """Any JSON object."""
        return cls.json_schema({"type": "object"}, strict=False)

    @classmethod
    def regex(cls, pattern: str) -> Grammar:
        """Text that a regular expression matches as a whole."""
        return cls("regex", pattern)

    @classmethod
    def lark(cls, text: str) -> Grammar:
        """Text that a context-free grammar derives from its rule `start`."""
        return cls("lark", text)

    def part(self, name: str) -> dict[str, Any]:
        """The grammar as a part of another, which refers to it as `@name`."""
        match self.kind:
            case "json_schema":
                return {"name": name, "json_schema": json.loads(self.text)}
            case "regex":
                (only,) = json.loads(self.source)["grammars"]
                return {"name": name, "lark_grammar": only["lark_grammar"]}
        return {"name": name, "lark_grammar": self.text}


def schema_text(schema: Mapping[str, Any], strict: bool | None = None) -> str:
    """A JSON schema as text, with how its JSON is to be written. Raises RequestError."""
    if not isinstance(schema, Mapping):
        raise RequestError(f"a JSON schema is a mapping, not {shown(schema)}")
    require_shallow(schema, "a JSON schema")
    try:
        told = dict(schema) if strict is False else _closed(schema, _joined(schema))
        return json.dumps({**told, "x-guidance": _AS_WRITTEN}, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(f"this JSON schema is not JSON: {error}") from None


def one_line(problem: str) -> str:
    """What is wrong, in a line."""
    return " ".join(problem.split())[:200]


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
