"""Regular expressions with Python's meaning, searched by RE2 in linear time.

Python's own engine may try exponentially many ways to match, and no other thread runs meanwhile.
RE2 reads a text once for each match, and lets other threads run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import re2

from marith.errors import FormulaError
from marith.formula.translation import Unsupported, translated

_LONE = re.compile("[\ud800-\udfff]")  # halves of characters, which UTF-8 does not have


class _Alternative(NamedTuple):
    """RE2's expression, and how many characters before a match it looks at."""

    expression: Any
    behind: int

    def find(self, data: bytes, place: int) -> tuple[int, int] | None:
        """The first match at or after a place that is not empty.

        The expression's groups are empty marks: where the match begins, if it looks behind, and
        where it ends, if it looks ahead.
        """
        at = place
        for _ in range(self.behind):
            at = _stepped(data, at, -1)
        while (found := self.expression.search(data, at)) is not None:
            marks = [found.start(i + 1) for i in range(self.expression.groups)]
            start = marks.pop(0) if self.behind else found.start()
            ends = [mark for mark in marks if mark >= 0]
            end = ends[0] if ends else found.end()
            if end > start:
                return start, end
            if found.start() == len(data):
                break
            at = _stepped(data, found.start(), 1)
        return None


class Pattern:
    """A regular expression, ready to search. Empty matches count for nothing.

    The half of a character, which no UTF-8 has, is taken for U+FFFD.
    """

    def __init__(self, alternatives: Sequence[_Alternative]) -> None:
        self._alternatives = alternatives

    def found_in(self, text: str) -> bool:
        """Whether anything in the text matches."""
        return next(self._spans(text), None) is not None

    def removed_from(self, text: str) -> str:
        """The text without what matches: `re.sub` with nothing in its place."""
        spans = list(self._spans(text))
        if not spans:
            return text
        data = text.encode("utf-8", "surrogatepass")
        starts, ends = [0, *(end for _, end in spans)], [*(start for start, _ in spans), len(data)]
        kept = b"".join(data[start:end] for start, end in zip(starts, ends, strict=True))
        return kept.decode("utf-8", "surrogatepass")

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Matches from left to right, in bytes; of several at one place, the first alternative's.

        Each alternative is searched alone, since one may look further behind than another.
        """
        data = _LONE.sub("\ufffd", text).encode()  # as many bytes as the half of a character
        nearest = [(each, each.find(data, 0)) for each in self._alternatives]
        while places := [span for _, span in nearest if span is not None]:
            start, end = min(places, key=lambda span: span[0])
            yield start, end
            nearest = [
                (each, each.find(data, end) if span is not None and span[0] < end else span)
                for each, span in nearest
            ]


@lru_cache(maxsize=256)
def compiled(expression: str, what: str = "hide") -> Pattern:
    """A regular expression ready to search. Raises FormulaError, which calls it `what`."""
    options = re2.Options()
    options.log_errors = False
    try:
        return Pattern(
            [
                _Alternative(re2.compile(each.text, options), each.behind)  # type: ignore[no-untyped-call]
                for each in translated(expression)
            ]
        )
    except Unsupported as error:
        problem = f"{what} {error}, which a search in linear time cannot do: {expression!r}"
    except (re.error, OverflowError, RecursionError) as error:
        problem = f"{what} is not a regular expression ({error}): {expression!r}"
    except (re2.error, UnicodeEncodeError):
        problem = f"{what} is too large a regular expression: {expression!r}"
    raise FormulaError(problem)


def _stepped(data: bytes, place: int, step: int) -> int:
    """The place of the next character, or of the one before."""
    place += step
    while 0 < place < len(data) and data[place] & 0xC0 == 0x80:
        place += step
    return max(0, place)
