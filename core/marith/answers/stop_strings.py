"""Where a text ends: stop strings are found, and never emitted."""

from __future__ import annotations

from collections.abc import Iterable

from marith.answers.output_parser import Piece
from marith.request.stop import Stop


class StopStringFilter:
    """Returns text once it can no longer be part of a stop string. Keeps state; can be copied.

    A character costs the same however many strings there are: they are searched for together, by
    an automaton (Aho and Corasick, 1975).
    """

    def __init__(self, stop: Stop) -> None:
        self.found: str | None = None
        self._held = ""
        self._search = stop.search

    @property
    def pending(self) -> bool:
        """Whether text is held back."""
        return bool(self._held)

    def read(self, pieces: Iterable[Piece]) -> list[Piece]:
        """The pieces without a stop string, and without what follows one; others pass."""
        passed: list[Piece] = []
        for piece in pieces:
            if piece.kind != "text":
                passed.append(piece)
                continue
            start = piece.start - len(self._held)
            text = self.feed(piece.text) + (self.flush() if piece.last else "")
            ended = self.found is not None
            passed.append(Piece("text", text, start, piece.last or ended))
            if ended:
                break
        return passed

    def feed(self, text: str) -> str:
        """The text that is certain now; none from a stop string on."""
        if self._search is None or self.found is not None:
            return "" if self.found is not None else text
        self._held += text
        for last, length in self._search.iter(self._held):  # the first to be complete
            begun = last + 1 - length
            self.found = self._held[begun : last + 1]
            return self._release(begun)
        held = self._held
        may_begin = (at for at in range(len(held)) if self._search.match(held[at:]))
        return self._release(next(may_begin, len(held)))

    def flush(self) -> str:
        """What is left when no more text comes: it was no stop string after all."""
        return "" if self.found is not None else self._release(len(self._held))

    def _release(self, count: int) -> str:
        text, self._held = self._held[:count], self._held[count:]
        return text
