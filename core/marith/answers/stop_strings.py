"""Finds the stop string that ends a text, and withholds it."""

from __future__ import annotations

from collections.abc import Iterable

from marith.answers.output_parser import Piece
from marith.request.stop import Stop


class StopStringFilter:
    """Returns text once it cannot be part of a stop string; until then it is `held`.

    Keeps state; can be copied. A stop string that is complete before character `exempt` is text.

    A character costs the same however many strings there are: an automaton searches for all of
    them at once (Aho and Corasick, 1975).
    """

    def __init__(self, stop: Stop) -> None:
        self.found: str | None = None
        self.held = ""
        self.exempt = 0
        self._search = stop.search

    @property
    def pending(self) -> bool:
        """Whether text is held back."""
        return bool(self.held)

    def read(self, pieces: Iterable[Piece]) -> list[Piece]:
        """The pieces up to the first stop string; pieces of other kinds are not searched."""
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
        """Add text, and return the text that is certain now: it ends before a stop string.

        A stop string that ends within the first `exempt` characters is not searched for; they are
        counted from the first character that is held.
        """
        if self._search is None or self.found is not None:
            return "" if self.found is not None else text
        self.held += text
        for last, length in self._search.iter(self.held):  # the first to be complete
            if last < exempt:
                continue
            start = last + 1 - length
            self.found = self.held[start : last + 1]
            return self._release(start)
        held = self.held
        may_begin = (start for start in range(len(held)) if self._search.match(held[start:]))
        return self._release(next(may_begin, len(held)))

    def flush(self) -> str:
        """The text that was held back, once no more follows: it is no stop string."""
        return "" if self.found is not None else self._release(len(self.held))

    def _release(self, count: int) -> str:
        text, self.held = self.held[:count], self.held[count:]
        return text
