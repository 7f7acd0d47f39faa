"""Finds the banned words of an answer, and where each begins."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from marith.answers.output_parser import Piece
from marith.request.ban import WHOLE, Ban, Tree


class BanDetector:
    """Finds banned words in an answer that arrives in pieces. Keeps state; can be copied.

    The reasoning and the text, without stop strings, are searched separately; calls are not
    searched. A word is returned as the place of its first character. Where several words are
    complete at the same character, the one that began last is returned.
    """

    def __init__(self, ban: Ban) -> None:
        self.found: int | None = None  # where the first banned word of the pieces begins
        self._ban = ban
        # Words that may go on: where each begins, and what may follow. Replaced, never changed:
        # copies share it.
        self._begun: list[tuple[int, Tree]] = []
        self._in_word = False

    @property
    def pending(self) -> bool:
        """Whether the last characters may be the beginning of a banned word."""
        return bool(self._begun)

    def read(self, pieces: list[Piece]) -> list[Piece]:
        """Return the pieces as they are; the first banned word in them sets `found`."""
        for piece in pieces:
            if self.found is None and piece.kind != "call":
                self.found = self.feed(piece.text, piece.start)
                if self.found is None and piece.last:
                    self.found = self.end()
        return pieces

    def feed(self, text: str, start: int) -> int | None:
        """The place where the first word begins that this text completes; None if there is none.

        `start` is the place of the text's first character. Nothing after a complete word is read.
        """
        for place, character in enumerate(text, start):
            for folded in self._ban.folded(character):
                word_start = self._step(folded, place)
                if word_start is not None:
                    return word_start
        return None

    def end(self) -> int | None:
        """The place where a word begins that the end of the text completes; None without one."""
        word_start, self._begun, self._in_word = _complete(self._begun), [], False
        return word_start

    def _step(self, letter: str, place: int) -> int | None:
        in_word = self._ban.whole_words and _is_of_a_word(letter)
        word_goes_on, self._in_word = self._in_word and in_word, in_word
        if not self._begun and (word_goes_on or letter not in self._ban.tree):
            return None
        ended_before = None if in_word else _complete(self._begun)
        begun = self._begun if word_goes_on else [*self._begun, (place, self._ban.tree)]
        self._begun = [(start, tree[letter]) for start, tree in begun if letter in tree]
        return ended_before if in_word else _latest(ended_before, _complete(self._begun))


def _complete(begun: Sequence[tuple[int, Tree]]) -> int | None:
    """Where the word begins that is complete, and began last."""
    return max((start for start, tree in begun if WHOLE in tree), default=None)


def _latest(*places: int | None) -> int | None:
    return max((place for place in places if place is not None), default=None)


def _is_of_a_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_" or unicodedata.category(letter).startswith("M")
