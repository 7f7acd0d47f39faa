"""Texts that must not appear in an answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from marith.errors import RequestError, shown

Tree: TypeAlias = dict[str, Any]  # the letters that may follow, and what may follow each


WHOLE = ""  # stands among them where a word may end


LETTERS = 500_000  # of all banned words: 75 MB


@dataclass(frozen=True, slots=True)
class Ban:
    """Texts that must not appear in an answer, be they words or several.

    With `whole_words`, a text that begins or ends with part of a word (a letter, a digit, an
    underscore, a mark on a letter) counts only where no more of that word stands beside it. Unless
    `case_sensitive`, letters are equal as Unicode folds their case. Raises RequestError.
    """

    words: tuple[str, ...]
    whole_words: bool = True
    case_sensitive: bool = False
    tree: Tree = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.words, (str, Sequence)):
            raise RequestError(f"banned words are a list of texts, not {shown(self.words)}")
        words = (self.words,) if isinstance(self.words, str) else tuple(self.words)
        for word in words:
            if not isinstance(word, str) or not word:
                raise RequestError(f"a banned word is a text, and not an empty one: {shown(word)}")
        for name in ("whole_words", "case_sensitive"):
            if not isinstance(value := getattr(self, name), bool):
                raise RequestError(f"{name} is True or False, not {shown(value)}")
        letters = sum(map(len, words))
        if letters > LETTERS:
            raise RequestError(f"the banned words have {letters:,} letters; at most {LETTERS:,}")
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "tree", _tree(map(self.folded, words)))

    def folded(self, text: str) -> str:
        """The text as it is compared; each letter's part of it hangs on that letter alone."""
        return text if self.case_sensitive else text.casefold()


def _tree(words: Iterable[str]) -> Tree:
    root: Tree = {}
    for word in words:
        tree = root
        for letter in word:
            tree = tree.setdefault(letter, {})
        tree[WHOLE] = {}
    return root
