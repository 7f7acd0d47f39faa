"""How large a formula may be, whether it is read from a text or built in Python."""

from __future__ import annotations

import re

from marith.errors import TooLarge

MAX_LENGTH = 20_000  # letters of a formula as text, each term counted as one
MAX_NODES = 5_000
MAX_DEPTH = 60
MAX_ROW = 500  # members of a sum without parentheses: Python's parser recurses for each

QUOTED = re.compile(  # an open quotation reaches to the end, so that no letter is read twice
    r'"""(?:[^\\]|\\.)*?(?:"""|\Z)|' r"'''(?:[^\\]|\\.)*?(?:'''|\Z)|"
    r'"[^"\\]*(?:\\.[^"\\]*)*"?|' r"'[^'\\]*(?:\\.[^'\\]*)*'?",
    re.DOTALL,
)  # fmt: skip
_TERM = re.compile(r"\b(?:prompted|classifier|ngram|uniform)\([^()]*\)")


def letters_of(text: str) -> int:
    """The length of a formula's text, each term counted as one letter.

    A term may hold a text of any length: `0.5*prompted("Be kind.")` has five letters.
    """
    return len(_TERM.sub("M", QUOTED.sub('""', text)))


def refuse_beyond(nodes: int, depth: int, letters: int) -> None:
    """Raise TooLarge for a formula of so many parts, nested so deep, or of so many letters."""
    if nodes > MAX_NODES:
        raise TooLarge(f"the formula has {nodes} parts; {MAX_NODES} are allowed")
    if depth > MAX_DEPTH:
        raise TooLarge(f"the formula is nested {depth} deep; {MAX_DEPTH} are allowed")
    if letters > MAX_LENGTH:
        raise TooLarge(f"the formula is written in {letters} letters; {MAX_LENGTH} are allowed")
