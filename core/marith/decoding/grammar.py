"""Which texts are allowed: a JSON schema, a regular expression or a grammar, as plain data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from llguidance import LLMatcher

from marith.errors import RequestError

# As `json.dumps` writes it, and so as chat templates and their models do.
_AS_WRITTEN = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
_HOLDS_SCHEMAS = ("properties", "$defs", "definitions", "patternProperties")
_LISTS_SCHEMAS = ("anyOf", "oneOf", "prefixItems")
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
            raise RequestError(f"a {self.kind} is a text, not {self.text!r}")
        if self.kind not in _MAKE:
            raise RequestError(f"a grammar is {', '.join(_MAKE)}, not {self.kind!r}")
        try:
            source = _MAKE[self.kind](self.text)
        except ValueError as error:
            raise RequestError(f"no {self.kind}: {error}: {self.text[:80]!r}") from None
        wrong, problems = LLMatcher.validate_grammar_with_warnings(source)
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
        raise RequestError(f"a JSON schema is a mapping, not {schema!r}")
    told = dict(schema) if strict is False else _closed(schema)
    try:
        return json.dumps({**told, "x-guidance": _AS_WRITTEN}, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(f"this JSON schema is not JSON: {error}") from None


def one_line(problem: str) -> str:
    """What is wrong, in a line."""
    return " ".join(problem.split())[:200]


def _closed(schema: Any) -> Any:
    """The schema with no room for properties that it does not name."""
    if not isinstance(schema, Mapping):
        return schema
    closed = dict(schema)
    for key in _HOLDS_SCHEMAS:
        if isinstance(schema.get(key), Mapping):
            closed[key] = {name: _closed(each) for name, each in schema[key].items()}
    for key in _LISTS_SCHEMAS:
        if isinstance(schema.get(key), list):
            closed[key] = [_closed(each) for each in schema[key]]
    for key in _IS_SCHEMA:
        if key in schema:
            closed[key] = _closed(schema[key])
    # Members of allOf describe one object together: closed, each would shut the others out.
    if "properties" in schema and "allOf" not in schema:
        closed.setdefault("additionalProperties", False)
    return closed
