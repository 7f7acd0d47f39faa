"""Where a banned word began that is now complete, and whether one may have begun."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from marith.answers.output_parser import Piece
from marith.request.ban import WHOLE, Ban, Tree


class BanDetector:
    """Finds banned words in an answer that comes piece by piece. Keeps state; can be copied.

    The reasoning and the text, without stop strings, are each searched as a text of its own; calls
    are not searched. A word is returned as the place of its first character. Of several that are
    complete at the same character, the one that began last counts.
    """

    def __init__(self, ban: Ban) -> None:
        self.found: int | None = None  # in the pieces so far
        self._ban = ban
        self._begun: list[tuple[int, Tree]] = []  # replaced, never changed: copies share it
        self._in_word = False

    @property
    def pending(self) -> bool:
        """Whether a word has begun that may yet become a banned one."""
        return bool(self._begun)

    def read(self, pieces: list[Piece]) -> list[Piece]:
        """The pieces as they are; `found` is set by the first banned word in them."""
        for piece in pieces:
            if self.found is None and piece.kind != "call":
                self.found = self.feed(piece.text, piece.start)
                if self.found is None and piece.last:
                    self.found = self.end()
        return pieces

    def feed(self, text: str, start: int) -> int | None:
        """The place where the first word began that this text completes.

        `start` is the place of the text's first character. What follows a complete word is not
        read.
        """
        for place, character in enumerate(text, start):
            for folded in self._ban.folded(character):
                found = self._step(folded, place)
                if found is not None:
                    return found
        return None

    def end(self) -> int | None:
        """The place where a word began that the end of the text shows to be complete."""
        found, self._begun, self._in_word = _whole(self._begun), [], False
        return found

    def _step(self, letter: str, place: int) -> int | None:
        inside = self._ban.whole_words and _is_of_a_word(letter)
        goes_on, self._in_word = self._in_word and inside, inside
        if not self._begun and (goes_on or letter not in self._ban.tree):
            return None
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
