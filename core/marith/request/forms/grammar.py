"""Which texts are allowed: a JSON schema, a regular expression or a grammar, as plain data."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from pydantic import BaseModel

from marith.errors import RequestError, shown
from marith.request.checks import distinct_texts
from marith.request.forms.json_schema import (
    LEVELS,
    levels,
    schema_text,
)
from marith.request.forms.schema_formats import schema_of

_MAKE: dict[str, Callable[[str], str]] = {
    "json_schema": LLMatcher.grammar_from_json_schema,
    "regex": LLMatcher.grammar_from_regex,
    "lark": LLMatcher.grammar_from_lark,
}


LETTERS = 250_000  # of a grammar's text: it costs at most half a second and some 80 MB
RULES = 1_000  # of a Lark grammar: 3,000 rules, each of which names the next, overflowed the stack
# An object of n optional properties has 4n items in a row, and 5n symbols: 4,000 at most.
LIMITS = LLParserLimits(
    max_items_in_row=20_000,
    step_max_items=200_000,
    max_grammar_size=20_000,
    verbose_errors=False,
)
_NO_NAME = re.compile(r"[^\w-]+", re.ASCII)
# How llguidance says what is wrong with an expression.
_PARSE_ERROR = re.compile(r"^ *error: ([^\n]+)", re.MULTILINE)
_STUCK = "NoExtensionBias <non-verbose/>"  # llguidance's error where nothing may follow
_RULE = re.compile(r"^\s*[\w?!]+(\.\d+)?(\[[^\]\n]*\])?\s*:", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Grammar:
    """The texts that an answer may be. The formula steers style; the grammar guarantees syntax.

    Made by `json_schema`, `json_object`, `regex`, `choice` or `lark`, and checked when it is made:
    raises RequestError for what is no grammar, and for a schema that cannot be enforced. `text` is
    the definition; see llguidance for Lark's dialect. `tool` is the tool, as JSON, that shows a
    schema to the model.
    """

    kind: Literal["json_schema", "regex", "lark"]
    text: str
    tool: str = field(default="", repr=False)
    source: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise RequestError(f"a {self.kind} is a text, not {shown(self.text)}")
        if self.kind not in tuple(_MAKE):
            raise RequestError(f"a grammar is {', '.join(_MAKE)}, not {shown(self.kind)}")
        object.__setattr__(self, "source", _source(self.kind, self.text))

    @classmethod
    def json_schema(
        cls,
        schema: Mapping[str, Any] | type[BaseModel],
        strict: bool | None = None,
        show_as: str | None = None,
        drops_repeats: bool = False,
    ) -> Grammar:
        """JSON that a schema or a class of pydantic's describes, its keys in that order.

        Objects contain only the properties that the schema names, unless it allows others itself
        or `strict` is False. With a name in `show_as`, the prompt shows a schema of objects to the
        model as the chat template writes a tool of that name, whose arguments are the answer;
        beside other tools it is not shown. `drops_repeats` says that the reader of the answer drops
        repeated items of an array, as a class does for its sets.
        """
        is_class = isinstance(schema, type)
        schema = schema_of(schema)
        text, tool = schema_text(schema, strict, drops_repeats=drops_repeats or is_class), ""
        if show_as is not None and schema.get("type", "object") == "object":
            tool = json.dumps(_tool(schema, strict, show_as), ensure_ascii=False)
        return cls("json_schema", text, tool)

    @classmethod
    def json_object(cls) -> Grammar:
        """Any JSON object."""
        return cls.json_schema({"type": "object"}, strict=False)

    @classmethod
    def regex(cls, pattern: str) -> Grammar:
        """Text that a regular expression matches as a whole."""
        return cls("regex", pattern)

    @classmethod
    def choice(cls, options: Sequence[str]) -> Grammar:
        """One of some texts, as it is written. Raises RequestError for fewer than two."""
        texts = distinct_texts("options", options)
        return cls.lark("start: " + " | ".join(json.dumps(t, ensure_ascii=False) for t in texts))

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


def _tool(schema: Mapping[str, Any], strict: bool | None, name: str) -> dict[str, Any]:
    """A function that takes what a schema describes."""
    function: dict[str, Any] = {"name": _NO_NAME.sub("_", name)[:64] or "answer"}
    if description := schema.get("description"):
        function["description"] = description
    function["parameters"] = {k: v for k, v in schema.items() if k not in ("title", "description")}
    if strict is not None:
        function["strict"] = strict
    return {"type": "function", "function": function}


def one_line(problem: str) -> str:
    """An error of llguidance on one line, cut to 200 letters."""
    return " ".join(problem.split())[:200]


def _reason(kind: str, text: str, problem: str) -> str:
    """Return llguidance's error; of an expression without the grammar that llguidance made."""
    match = _PARSE_ERROR.search(problem) if kind == "regex" else None
    return f"{one_line(match[1])}: {shown(text[:80])}" if match else one_line(problem)


def require_bounded(kind: str, text: str) -> None:
    """Raises RequestError for a grammar that costs too much to compile.

    llguidance finds all other faults.
    """
    if len(text) > LETTERS:
        raise RequestError(f"this {kind} has {len(text):,} letters; at most {LETTERS:,} are read")
    if kind == "lark":
        rules = sum(1 for _ in _RULE.finditer(text)) + text.count('"$ref"')
        if rules > RULES:
            raise RequestError(f"this lark has {rules:,} rules; at most {RULES:,} are read")
    if kind == "json_schema":
        try:
            schema = json.loads(text)
        except ValueError:
            return
        except RecursionError:
            raise RequestError(f"this json_schema is nested deeper than {LEVELS} levels") from None
        if levels(schema) > LEVELS:
            raise RequestError(
                f"this json_schema and its definitions have more than {LEVELS} levels together"
            )


@lru_cache(maxsize=64)  # many requests have the same grammar
def _source(kind: str, text: str) -> str:
    """The grammar in llguidance's format. Raises RequestError for what is no grammar."""
    require_bounded(kind, text)
    try:
        source = _MAKE[kind](text)
    except ValueError as error:
        raise RequestError(f"no {kind}: {error}: {shown(text[:80])}") from None
    is_invalid, problems = LLMatcher.validate_grammar_with_warnings(source, limits=LIMITS)
    if is_invalid:
        raise RequestError(f"this {kind} cannot be followed: {_reason(kind, text, problems[0])}")
    if "<" not in text or kind != "lark":  # bytes have no special tokens
        first = LLMatcher(_byte_tokens(), source, log_level=0, limits=LIMITS)
        first.compute_bitmask()
        if first.is_error():
            problem = one_line(first.get_error()).replace(_STUCK, "no text follows it")
            raise RequestError(f"this {kind} cannot be followed: {problem}")
    return source


@lru_cache(maxsize=1)
def _byte_tokens() -> LLTokenizer:
    return LLTokenizer("byte")
