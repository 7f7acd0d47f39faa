"""Texts that must not appear in an answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from marith.request.checks import by, flag, hold, texts

Tree: TypeAlias = dict[str, Any]  # the next letters of words, each with the tree after it


WHOLE = ""  # a key of a tree where a word is complete
LETTERS = 500_000  # of all banned words: 75 MB


@dataclass(frozen=True, slots=True)
class Ban:
    """Texts that must not appear in an answer, each of one word or more.

    With `whole_words`, a text that begins or ends with a word character (a letter, a digit, an
    underscore, a mark on a letter) is not banned where another one is next to it: "bad" is allowed
    in "badge". Unless `case_sensitive`, letters are compared by Unicode's case folding. Raises
    RequestError.
    """

    words: tuple[str, ...] = field(metadata=by(texts(LETTERS), "ban"))
    whole_words: bool = field(default=True, metadata=by(flag))
    case_sensitive: bool = field(default=False, metadata=by(flag))
    tree: Tree = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        hold(self)
        object.__setattr__(self, "tree", _tree(map(self.folded, self.words)))

    def folded(self, text: str) -> str:
        """The text as it is compared; each letter is folded by itself."""
        return text if self.case_sensitive else text.casefold()


def _tree(words: Iterable[str]) -> Tree:
    root: Tree = {}
    for word in words:
        tree = root
        for letter in word:
            tree = tree.setdefault(letter, {})
        tree[WHOLE] = {}
    return root
