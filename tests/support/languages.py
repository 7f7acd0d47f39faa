"""Grammars over the letters a to f, each with an automaton that says what may follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from support.small_engine import END, VOCAB
from torch import Tensor

from marith import Grammar

FIRST = 2  # of a tiny vocabulary: the letter a
LETTERS = "abcdef"

_REGULAR = {
    "first": {"a": "open", "b": "open", "c": "open"},
    "open": {"d": "shut", "e": "whole", "f": "whole"},
    "shut": {"e": "whole", "f": "whole"},
    "whole": {"a": "open", "b": "open", "c": "open"},
}


@dataclass(frozen=True)
class Language:
    """A grammar, and a function that returns what may follow a text; "." is the end."""

    grammar: Grammar
    follow: Callable[[str], str]

    def allowed(self, tokens: Sequence[int], vocab: int = VOCAB) -> Tensor:
        """Return True for the tokens that may follow: [vocab]."""
        may = self.follow("".join(LETTERS[token - FIRST] for token in tokens))
        row = torch.zeros(vocab, dtype=torch.bool)
        row[[END if letter == "." else FIRST + LETTERS.index(letter) for letter in may]] = True
        return row


def _after(text: str) -> str:
    """Return what may follow in `([abc]d?[ef])+`."""
    state = "first"
    for letter in text:
        state = _REGULAR.get(state, {}).get(letter, "never")
    return "".join(_REGULAR.get(state, "")) + ("." if state == "whole" else "")


def _nested(text: str) -> str:
    """Return what may follow if a b closes each a, with something between them."""
    depth = text.count("a") - text.count("b")
    empty = not text or text[-1] == "a"
    return "acde" + ("b" if depth and not empty else "") + ("." if not (depth or empty) else "")


REGULAR = Language(Grammar.regex("([abc]d?[ef])+"), _after)
NESTED = Language(
    Grammar.lark('start: (pair | leaf)+\npair: "a" start "b"\nleaf: "c" | "d" | "e"'), _nested
)
