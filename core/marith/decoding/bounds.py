"""What a grammar may cost at most: llguidance has bounds on some of it, and these are the rest."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from llguidance import LLParserLimits

from marith.errors import RequestError

LETTERS = 250_000  # of a grammar's text: half a second, and some 80 MB where each costs most
# Compilers recurse, and who takes more than a thread's stack ends the process.
LEVELS = 700  # of a schema, with those of each definition that it refers to: 2,100 took it
RULES = 1_000  # of a Lark grammar: 3,000 of which each names the next took it
# An object of n optional properties has 4n items in a row, and 5n symbols: 4,000 at most.
LIMITS = LLParserLimits(
    max_items_in_row=20_000,
    step_max_items=200_000,
    max_grammar_size=20_000,
    verbose_errors=False,
)
_RULE = re.compile(r"^\s*[\w?!]+(\.\d+)?(\[[^\]\n]*\])?\s*:", re.MULTILINE)


def require_bounded(kind: str, text: str) -> None:
    """Raises RequestError for a grammar that costs too much to compile.

    What else is wrong with it is for llguidance to say.
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
