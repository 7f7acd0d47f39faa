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

_SURROGATE = re.compile("[\ud800-\udfff]")  # halves of characters, which UTF-8 does not have


class _Alternative(NamedTuple):
    """An expression of RE2, and how many characters before a match it looks at."""

    expression: Any
    behind: int

    def find(self, data: bytes, place: int) -> tuple[int, int] | None:
        """The first match at or after a place that is not empty.

        The expression's groups are empty, and mark where the match begins, if it looks behind, and
        where it ends, if it looks ahead.
        """
        search_from = place
        for _ in range(self.behind):
            search_from = _stepped(data, search_from, -1)
        while (match := self.expression.search(data, search_from)) is not None:
            marks = [match.start(i + 1) for i in range(self.expression.groups)]
            start = marks.pop(0) if self.behind else match.start()
            ends = [mark for mark in marks if mark >= 0]
            end = ends[0] if ends else match.end()
            if end > start:
                return start, end
            if match.start() == len(data):
                break
            search_from = _stepped(data, match.start(), 1)
        return None


class Pattern:
    """A compiled regular expression. Empty matches are ignored.

    Half of a character, which UTF-8 cannot contain, is read as U+FFFD.
    """

    def __init__(self, alternatives: Sequence[_Alternative]) -> None:
        self._alternatives = alternatives

    def found_in(self, text: str) -> bool:
        """Whether any part of the text matches."""
        return next(self._spans(text), None) is not None

    def removed_from(self, text: str) -> str:
        """The text without its matches: `re.sub` with an empty replacement."""
        spans = list(self._spans(text))
        if not spans:
            return text
        data = text.encode("utf-8", "surrogatepass")
        starts, ends = [0, *(end for _, end in spans)], [*(start for start, _ in spans), len(data)]
        kept = b"".join(data[start:end] for start, end in zip(starts, ends, strict=True))
        return kept.decode("utf-8", "surrogatepass")

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Matches from left to right, in bytes; of several at one place, the first alternative's.

        Each alternative is searched by itself, since one may look further behind than another.
        """
        data = _SURROGATE.sub("\ufffd", text).encode()  # as many bytes as the half of a character
        nearest = [(alternative, alternative.find(data, 0)) for alternative in self._alternatives]
        while places := [span for _, span in nearest if span is not None]:
            start, end = min(places, key=lambda span: span[0])
            yield start, end
            nearest = [
                (
                    alternative,
                    alternative.find(data, end) if span is not None and span[0] < end else span,
                )
                for alternative, span in nearest
            ]


@lru_cache(maxsize=256)
def compiled(expression: str, name: str = "hide") -> Pattern:
    """A regular expression ready to search. Raises FormulaError, which calls it `name`."""
    options = re2.Options()
    options.log_errors = False
    try:
        return Pattern(
            [
                _Alternative(re2.compile(way.text, options), way.behind)  # type: ignore[no-untyped-call]
                for way in translated(expression)
            ]
        )
    except Unsupported as error:
        problem = f"{name} {error}, which a search in linear time cannot do: {expression!r}"
    except (re.error, OverflowError, RecursionError) as error:
        problem = f"{name} is not a regular expression ({error}): {expression!r}"
    except (re2.error, UnicodeEncodeError):
        problem = f"{name} is too large a regular expression: {expression!r}"
    raise FormulaError(problem)


def _stepped(data: bytes, place: int, step: int) -> int:
    """The place of the next character (`step` 1) or of the previous one (−1)."""
    place += step
    while 0 < place < len(data) and data[place] & 0xC0 == 0x80:
        place += step
    return max(0, place)
