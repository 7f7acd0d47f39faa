"""The texts that an answer may be: a JSON schema, a regular expression or a grammar."""

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
from marith.request.forms.finite_schemas import require_finite
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


# While a grammar allows only one next byte, it is followed for at most this number of bytes, to
# find out whether any text matches.
FORCED = 100
# A grammar has at most this number of characters. Compiling it then takes at most half a second and
# about 80 MB.
LETTERS = 250_000
# A Lark grammar has at most this number of rules. A chain of 3,000 rules overflowed the stack.
RULES = 1_000
# For an object of n optional properties, llguidance needs 4n items in one row (`max_items_in_row`)
# and at least 7n symbols (`max_grammar_size`), so n is at most about 2,850.
LIMITS = LLParserLimits(
    max_items_in_row=20_000,
    step_max_items=200_000,
    max_grammar_size=20_000,
    verbose_errors=False,
)
# The name of a function in OpenAI's format must not have these characters.
_NO_NAME = re.compile(r"[^\w-]+", re.ASCII)
# The line of llguidance's error that says what is wrong with a regular expression.
_PARSE_ERROR = re.compile(r"^ *error: ([^\n]+)", re.MULTILINE)
# llguidance's error contains this word if no token may follow.
_STUCK = "NoExtensionBias"
# llguidance's error contains this word if it cannot read the whole text that a grammar forces.
_ENDLESS = "ff_tokens"
# The beginning of a rule of Lark: a name, a priority, attributes and a colon.
_RULE = re.compile(r"^\s*[\w?!]+(\.\d+)?(\[[^\]\n]*\])?\s*:", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Grammar:
    """The texts that an answer may be. The formula steers style; the grammar guarantees syntax.

    Make one with `json_schema`, `json_object`, `regex`, `choice` or `lark`. Raises RequestError for
    an invalid grammar, and for a schema that cannot be enforced. `text` is the definition;
    llguidance documents its dialect of Lark. `tool` is the tool, as JSON, that shows a schema to
    the model.
    """

    kind: Literal["json_schema", "regex", "lark"]
    text: str
    tool: str = field(default="", repr=False)
    source: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise RequestError(
                f"the definition of a {self.kind} grammar must be a text, not {shown(self.text)}"
            )
        if self.kind not in tuple(_MAKE):
            raise RequestError(
                f"the kind of a grammar must be one of {', '.join(_MAKE)}, not {shown(self.kind)}"
            )
        object.__setattr__(self, "source", _source(self.kind, self.text))

    @classmethod
    def json_schema(
        cls,
        schema: Mapping[str, Any] | type[BaseModel],
        strict: bool | None = None,
        show_as: str | None = None,
        drops_repeats: bool = False,
    ) -> Grammar:
        """Return a grammar of the JSON that fits a schema or a pydantic class.

        The keys are in the order of the schema. Objects have only the properties that the schema
        names, unless the schema allows others or `strict` is False. If `show_as` is a name, the
        chat template shows the schema of an object as a tool of this name, and the tool's arguments
        are the answer; a request with other tools does not show this tool. Set `drops_repeats` if
        the program that reads the answer drops repeated items of an array, as a pydantic class does
        for a set.
        """
        is_class = isinstance(schema, type)
        schema = schema_of(schema)
        text, tool = schema_text(schema, strict, drops_repeats=drops_repeats or is_class), ""
        if show_as is not None and schema.get("type", "object") == "object":
            tool = json.dumps(_tool(schema, strict, show_as), ensure_ascii=False)
        return cls("json_schema", text, tool)

    @classmethod
    def json_object(cls) -> Grammar:
        """Return a grammar of any JSON object."""
        return cls.json_schema({"type": "object"}, strict=False)

    @classmethod
    def regex(cls, pattern: str) -> Grammar:
        """Return a grammar of texts that a regular expression matches as a whole."""
        return cls("regex", pattern)

    @classmethod
    def choice(cls, options: Sequence[str]) -> Grammar:
        """Return a grammar of the texts in `options`. Raises RequestError for fewer than two."""
        texts = distinct_texts("options", options)
        return cls.lark("start: " + " | ".join(json.dumps(t, ensure_ascii=False) for t in texts))

    @classmethod
    def lark(cls, text: str) -> Grammar:
        """Return a context-free grammar in the syntax of Lark. Its rule `start` is the answer."""
        return cls("lark", text)

    def part(self, name: str) -> dict[str, Any]:
        """Return the grammar as a part of another grammar, which refers to this part as `@name`."""
        match self.kind:
            case "json_schema":
                return {"name": name, "json_schema": json.loads(self.text)}
            case "regex":
                (only,) = json.loads(self.source)["grammars"]
                return {"name": name, "lark_grammar": only["lark_grammar"]}
        return {"name": name, "lark_grammar": self.text}


def _tool(schema: Mapping[str, Any], strict: bool | None, name: str) -> dict[str, Any]:
    """Return a tool whose arguments follow a schema."""
    function: dict[str, Any] = {"name": _NO_NAME.sub("_", name)[:64] or "answer"}
    if description := schema.get("description"):
        function["description"] = description
    function["parameters"] = {k: v for k, v in schema.items() if k not in ("title", "description")}
    if strict is not None:
        function["strict"] = strict
    return {"type": "function", "function": function}


def one_line(problem: str) -> str:
    """Return an error of llguidance on one line, cut to 200 characters."""
    return " ".join(problem.split())[:200]


def _why_invalid(kind: str, text: str, problem: str) -> str:
    """Return a message with llguidance's error. For a regex, the message shows the regex."""
    if problem.startswith("oneOf"):
        # llguidance's own message advises an option that only llguidance has.
        problem = (
            "'oneOf' has schemas that may match the same value; write 'anyOf', or a required "
            "property with another constant in each schema"
        )
    elif kind == "regex" and (match := _PARSE_ERROR.search(problem)):
        return f"{shown(text[:80])} is not a valid regex: {one_line(match[1])}"
    return f"this {kind} grammar cannot be used: {one_line(problem)}"


def require_bounded(kind: str, text: str) -> None:
    """Raise RequestError for a grammar that costs too much to compile, or has no finite text.

    llguidance finds all other faults.
    """
    if len(text) > LETTERS:
        raise RequestError(
            f"this {kind} has {len(text):,} characters; at most {LETTERS:,} are allowed"
        )
    if kind == "lark":
        rules = sum(1 for _ in _RULE.finditer(text)) + text.count('"$ref"')
        if rules > RULES:
            raise RequestError(
                f"this lark grammar has {rules:,} rules; at most {RULES:,} are allowed"
            )
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
        if '"$ref"' in text:
            require_finite(schema)


# Many requests have the same grammar.
@lru_cache(maxsize=64)
def _source(kind: str, text: str) -> str:
    """Return the grammar in llguidance's format. Raises RequestError for an invalid grammar."""
    require_bounded(kind, text)
    try:
        source = _MAKE[kind](text)
    except ValueError as error:
        raise RequestError(f"invalid {kind}: {error}: {shown(text[:80])}") from None
    is_invalid, problems = LLMatcher.validate_grammar_with_warnings(source, limits=LIMITS)
    if is_invalid:
        raise RequestError(_why_invalid(kind, text, problems[0]))
    # Lark writes special tokens in angle brackets. The vocabulary of bytes has no special tokens,
    # so a Lark grammar that contains "<" is not tested here.
    if "<" not in text or kind != "lark":
        _require_text(kind, source)
    return source


def _require_text(kind: str, source: str) -> None:
    """Follow the bytes that a grammar forces. Raises RequestError if no text matches after them."""
    matcher, forced = LLMatcher(_byte_tokens(), source, log_level=0, limits=LIMITS), bytearray()
    while len(forced) < FORCED:
        mask = int.from_bytes(matcher.compute_bitmask(), "little")
        # If only one byte is allowed, it is the highest bit of the mask.
        byte = mask.bit_length() - 1
        if not matcher.is_error():
            # There is a choice, or the text may end.
            if mask.bit_count() > 1 or byte > 255:
                return
            if matcher.try_consume_tokens([byte]):
                forced.append(byte)
                continue
        problem = one_line(matcher.get_error())
        if _ENDLESS in problem:
            problem = "the text that it forces is too long or has no end"
        elif _STUCK in problem or not problem:
            place = repr(forced.decode(errors="replace"))
            problem = f"no text follows {place}" if forced else "it matches no text"
        raise RequestError(f"this {kind} grammar cannot be used: {problem}")


@lru_cache(maxsize=1)
def _byte_tokens() -> LLTokenizer:
    return LLTokenizer("byte")
