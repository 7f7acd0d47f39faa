"""Where a text began that must not appear and is now complete."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from marith.request.ban import WHOLE, Ban, Tree


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


def _whole(begun: Sequence[tuple[int, Tree]]) -> int | None:
    return max((at for at, tree in begun if WHOLE in tree), default=None)


def _latest(*places: int | None) -> int | None:
    return max((place for place in places if place is not None), default=None)


def _is_of_a_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_" or unicodedata.category(letter).startswith("M")
