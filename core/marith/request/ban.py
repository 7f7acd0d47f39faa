"""Texts that must not appear in an answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from marith.request.checks import check_fields, checked_by, flag, texts

# A tree maps each character that may come next in a word to the tree of the characters that may
# follow it.
Tree: TypeAlias = dict[str, Any]


# A tree has this key where a word is complete.
WHOLE = ""
# Banned words have at most this number of characters in total, and so do stop strings. The tree of
# such words takes 75 MB.
LETTERS = 500_000


@dataclass(frozen=True, slots=True)
class Ban:
    """Texts that must not appear in an answer.

    With `whole_words`, a text is banned only as whole words: "bad" is allowed in "badge". Letters,
    digits, underscores and combining marks form words. Unless `case_sensitive`, texts are compared
    by Unicode's case folding. Raises RequestError for invalid values.
    """

    words: tuple[str, ...] = field(metadata=checked_by(texts(LETTERS), "ban", untrusted=True))
    whole_words: bool = field(default=True, metadata=checked_by(flag))
    case_sensitive: bool = field(default=False, metadata=checked_by(flag))
    tree: Tree = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fields(self)
        object.__setattr__(self, "tree", tree_of(map(self.folded, self.words)))

    def folded(self, text: str) -> str:
        """Return the text in the form in which it is compared.

        `str.casefold` folds each character independently of the others.
        """
        return text if self.case_sensitive else text.casefold()


def tree_of(words: Iterable[str]) -> Tree:
    """Return the tree of words. Each level has the characters that may come next in a word."""
    root: Tree = {}
    for word in words:
        tree = root
        for letter in word:
            tree = tree.setdefault(letter, {})
        tree[WHOLE] = {}
    return root
