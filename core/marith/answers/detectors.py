"""Find the end tokens, the stop strings and the banned words of a text."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from marith.answers.output_parser import Piece
from marith.request.ban import WHOLE, Ban, Tree
from marith.request.request import Request
from marith.request.stop import Stop
from marith.scoring.prompting.tokenizer import Vocabulary


class StopStringFilter:
    """Passes text on once it cannot be part of a stop string. Until then the text is `held`.

    Keeps state; can be copied. A stop string that is complete before character `exempt` is ordinary
    text.

    The cost of a character does not depend on the number of strings. It grows with the number of
    places at which a string may have begun.
    """

    def __init__(self, stop: Stop) -> None:
        self.found: str | None = None
        self.held = ""
        self.exempt = 0
        self._root = stop.tree
        # The places in `held` at which a string may have begun, and the tree of the characters that
        # may follow.
        self._begun: list[tuple[int, Tree]] = []

    @property
    def pending(self) -> bool:
        """True if text is held back."""
        return bool(self.held)

    def read(self, pieces: Iterable[Piece]) -> list[Piece]:
        """Return the pieces up to the first stop string. Only pieces of text are searched."""
        kept: list[Piece] = []
        for piece in pieces:
            if piece.kind != "text":
                kept.append(piece)
                continue
            start = piece.start - len(self.held)
            text = self.feed(piece.text, self.exempt - start)
            text += self.flush() if piece.last else ""
            ended = self.found is not None
            kept.append(Piece("text", text, start, piece.last or ended))
            if ended:
                break
        return kept

    def feed(self, text: str, exempt: int = 0) -> str:
        """Add text, and return the text that is certain now, which ends before a stop string.

        A stop string that ends within the first `exempt` characters is ignored. Characters are
        counted from the first character that is held.
        """
        if self.found is not None:
            return ""
        begun = self._begun
        held = self.held + text
        for place, letter in enumerate(text, len(self.held)):
            if not begun and letter not in self._root:
                continue
            begun = [*begun, (place, self._root)]
            begun = [(start, tree[letter]) for start, tree in begun if letter in tree]
            ended = (start for start, tree in begun if WHOLE in tree)
            if place >= exempt and (start := next(ended, None)) is not None:
                self.found = held[start : place + 1]
                self.held = held[start:]
                return held[:start]
        first = begun[0][0] if begun else len(held)
        self._begun = [(start - first, tree) for start, tree in begun]
        self.held = held[first:]
        return held[:first]

    def flush(self) -> str:
        """Return the text that was held back, when no more text follows."""
        held, self.held, self._begun = self.held, "", []
        return "" if self.found is not None else held


class BanDetector:
    """Finds banned words in an answer that arrives in pieces. Keeps state; can be copied.

    The reasoning and the text, without stop strings, are searched separately. Calls are not
    searched. A word is returned as the place of its first character. If several words are complete
    at one character, the word that began last is returned.
    """

    def __init__(self, ban: Ban) -> None:
        self.found: int | None = None  # the place of the first banned word
        self._ban = ban
        # The places of words that may continue, and the tree of the characters that may follow. The
        # list is replaced, never changed, because copies share it.
        self._begun: list[tuple[int, Tree]] = []
        self._in_word = False

    @property
    def pending(self) -> bool:
        """True if the last characters may be the beginning of a banned word."""
        return bool(self._begun)

    def read(self, pieces: list[Piece]) -> list[Piece]:
        """Return the pieces unchanged. The first banned word in them sets `found`."""
        for piece in pieces:
            if self.found is None and piece.kind != "call":
                self.found = self.feed(piece.text, piece.start)
                if self.found is None and piece.last:
                    self.found = self.end()
        return pieces

    def feed(self, text: str, start: int) -> int | None:
        """Return the place of the first word that this text completes, or None.

        `start` is the place of the text's first character. Text after a complete word is not read.
        """
        for place, character in enumerate(text, start):
            for folded in self._ban.folded(character):
                word_start = self._step(folded, place)
                if word_start is not None:
                    return word_start
        return None

    def end(self) -> int | None:
        """Return the place of a word that the end of the text completes, or None."""
        word_start, self._begun, self._in_word = _complete(self._begun), [], False
        return word_start

    def _step(self, letter: str, place: int) -> int | None:
        in_word = self._ban.whole_words and _is_of_a_word(letter)
        word_goes_on, self._in_word = self._in_word and in_word, in_word
        # Most letters begin no banned word.
        if not self._begun and (word_goes_on or letter not in self._ban.tree):
            return None
        # A whole word is complete only when the next character does not belong to a word.
        ended_before = None if in_word else _complete(self._begun)
        # A whole word never begins inside another word.
        begun = self._begun if word_goes_on else [*self._begun, (place, self._ban.tree)]
        self._begun = [(start, tree[letter]) for start, tree in begun if letter in tree]
        return ended_before if in_word else _latest(ended_before, _complete(self._begun))


def _complete(begun: Sequence[tuple[int, Tree]]) -> int | None:
    """Return the place of the complete word that began last, or None."""
    return max((start for start, tree in begun if WHOLE in tree), default=None)


def _latest(*places: int | None) -> int | None:
    return max((place for place in places if place is not None), default=None)


def _is_of_a_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_" or unicodedata.category(letter).startswith("M")


def ends_of(request: Request, vocabulary: Vocabulary) -> frozenset[int]:
    """Return the tokens that end an answer to a request.

    A text does not contain the names of special tokens, so the filter of stop strings cannot find
    them. A stop string that is such a name stands for the token, unless the token marks reasoning
    or a call.
    """
    named = vocabulary.special_named(request.stop.strings) - marks_of(request, vocabulary)
    return request.stop.ends(vocabulary.eos_ids) | named


def marks_of(request: Request, vocabulary: Vocabulary) -> frozenset[int]:
    """Return the special tokens that mark reasoning or calls in an answer to a request."""
    tool_format = vocabulary.tool_format
    marks = "".join(tool_format.thinking or ())
    if request.tools is not None:
        marks += tool_format.calls.marks
    return vocabulary.special_in(marks)
