"""Advice in error messages: what users can write instead of an invalid formula."""

from __future__ import annotations

import re
import unicodedata
from keyword import iskeyword

from marith.formula.text.calls import CALLS

METHODS = ("top_k", "top_p", "min_p", "temperature")
# This number of characters on each side of a fault is examined.
AROUND = 80
_CODE_POINT = re.compile(r"U\+([0-9A-F]+)")
# Possessive quantifiers (`*+`) keep the search in a long text from backtracking.
_NUMBER = r"\d[\d_]*+(?:\.\d*+)?"
_WORD = r"[^\W\d]\w*+"
_SIDE_BY_SIDE = re.compile(rf"({_NUMBER}|{_WORD}|\))\s*({_WORD}|{_NUMBER})")
_PROSE = re.compile(rf"{_WORD}(?:\s+{_WORD}){{2,}}")
_COMMA = re.compile(r"(?<![\w.])(\d+),(\d+)(?![\w.]*,)")
NO_MEANING = (
    "this has no meaning in a formula; its operators are +, -, * and /, and there are calls such "
    "as union(a, b), intersection(a, b), where(entropy(M) > 2, a, b) and M.top_p(0.9)"
)


def of_fault(source: str, message: str, start: int) -> tuple[str, int, int]:
    """Return a message about text that Python cannot parse, and where the fault begins and ends.

    `message` is Python's own message, about the character `start` of the text.
    """
    if point := _CODE_POINT.search(message):
        return _of_letter(chr(int(point[1], 16))), start, start + 1
    if message.startswith("unterminated"):
        return "a quotation mark is not closed", start, len(source)
    left = max(0, start - AROUND)
    piece, at = source[left : start + AROUND], start - left
    if any(words.start() <= at <= words.end() for words in _PROSE.finditer(piece)):
        return 'words are not a formula; a system prompt is written prompted("…")', start, start + 1
    for pair in _SIDE_BY_SIDE.finditer(piece):
        if pair.start() - 1 <= at <= pair.end() and not (iskeyword(pair[1]) or iskeyword(pair[2])):
            begin, end = pair.span(2)
            return _missing_operator(pair[1], pair[2]), left + begin, left + end
    if start >= len(source) - 1 and source[-1] in "+-*/(,":
        return "it ends where a term or a number is needed", start, start + 1
    return message, start, start + 1


def _missing_operator(left: str, right: str) -> str:
    """Return a message about two parts without an operator between them, such as `0.5` and `M`."""
    if left[0].isdigit():
        return f"an operator is missing; write {left}*{right}"
    if left in CALLS:
        return f"{left!r} is called with parentheses: {left}(…)"
    return f"an operator or a comma is missing between {left!r} and {right!r}"


def of_list(source: str) -> str:
    """Return advice for a formula that a comma makes a list, such as `0,5*M`, or ""."""
    comma = _COMMA.search(source)
    return f"; a number is written with a point: {comma[1]}.{comma[2]}" if comma else ""


def _of_letter(letter: str) -> str:
    """Return a message about an invalid character, which often looks like a valid one."""
    name = unicodedata.name(letter, "unnamed").lower()
    called = f"{letter!r} (U+{ord(letter):04X}, {name})"
    return f"{called} has no meaning; signs, quotation marks and spaces are those of ASCII"
