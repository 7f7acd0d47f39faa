"""Texts that must not appear: which they are, and where one began that is now complete."""

from __future__ import annotations

import unicodedata
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


class Finder:
    """Finds banned words in a text that comes letter by letter. Keeps state.

    Each letter comes with a place, and a word that is complete is told by the place of its first
    letter. Of several that are complete at once, the one that began last counts.
    """

    def __init__(self, ban: Ban) -> None:
        self._ban = ban
        self._begun: list[tuple[int, Tree]] = []
        self._in_word = False

    @property
    def suspects(self) -> bool:
        """Whether a text has begun that may yet become a banned word."""
        return bool(self._begun)

    def feed(self, letter: str, place: int) -> int | None:
        """The place where a word began that this letter shows to be complete."""
        found = [self._step(each, place) for each in self._ban.folded(letter)]
        return next((at for at in found if at is not None), None)

    def end(self) -> int | None:
        """The place where a word began that the end of the text shows to be complete."""
        found, self._begun = _whole(self._begun), []
        return found

    def _step(self, letter: str, place: int) -> int | None:
        inside = self._ban.whole_words and _is_of_a_word(letter)
        goes_on, self._in_word = self._in_word and inside, inside
        ended = None if inside else _whole(self._begun)
        begun = self._begun if goes_on else [*self._begun, (place, self._ban.tree)]
        self._begun = [(at, tree[letter]) for at, tree in begun if letter in tree]
        return ended if inside else _latest(ended, _whole(self._begun))


def _tree(words: Iterable[str]) -> Tree:
    root: Tree = {}
    for word in words:
        tree = root
        for letter in word:
            tree = tree.setdefault(letter, {})
        tree[WHOLE] = {}
    return root


def _whole(begun: Sequence[tuple[int, Tree]]) -> int | None:
    return max((at for at, tree in begun if WHOLE in tree), default=None)


def _latest(*places: int | None) -> int | None:
    return max((place for place in places if place is not None), default=None)


def _is_of_a_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_" or unicodedata.category(letter).startswith("M")
