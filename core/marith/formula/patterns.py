"""Regular expressions in RE2's syntax, matched in linear time while other threads run.

Python's own engine may try exponentially many ways to match, and blocks all other threads while it
does. The size of an expression is limited only by `re2`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import re2

from marith.errors import FormulaError, shown

SYNTAX = "https://github.com/google/re2/wiki/Syntax"


def compile_pattern(pattern: str, name: str = "hide") -> Any:
    """Return the compiled regular expression, which `re2` caches.

    Raises FormulaError for an invalid expression; the message calls the expression `name`.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)  # type: ignore[no-untyped-call]
    except re2.error as error:
        problem = error.args[0].decode(errors="replace")[:80]
    except UnicodeEncodeError:
        problem = "it contains an unpaired surrogate"
    raise FormulaError(
        f"{name}={shown(pattern)} is not a regular expression in RE2's syntax: {problem}; "
        f"see {SYNTAX}"
    )


def pattern_matches(pattern: str, text: str) -> bool:
    """Return whether `remove_matches` would remove anything from the text."""
    return any(end > start for start, end in _spans(pattern, _encoded(text)))


def remove_matches(pattern: str, text: str) -> str:
    """Return the text without the matches of a regular expression.

    If named groups took part in a match, only the text of these groups is removed.
    """
    data, kept, place = _encoded(text), [], 0
    for start, end in _spans(pattern, data):
        kept.append(data[place:start])
        # Named groups may lie within each other.
        place = max(place, end)
    return b"".join([*kept, data[place:]]).decode("utf-8", "surrogatepass")


def _spans(pattern: str, data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the spans to remove, from left to right, in bytes."""
    expression = compile_pattern(pattern)
    named = expression.groupindex.values()
    for match in expression.finditer(data):
        spans = (match.span(group) for group in named)
        yield from sorted(span for span in spans if span != (-1, -1)) or [match.span()]


def _encoded(text: str) -> bytes:
    # RE2 reads an unpaired surrogate as one character.
    return text.encode("utf-8", "surrogatepass")
