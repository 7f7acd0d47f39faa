"""Where a text ends: stop strings are found, and never emitted."""

from __future__ import annotations

from marith.request.stop import Stop


class TextGate:
    """Lets text out once it can no longer be part of a stop string. Holds the rest back.

    A letter costs the same however many strings there are: they are searched for together, by
    an automaton (Aho and Corasick, 1975).
    """

    def __init__(self, stop: Stop) -> None:
        self.found: str | None = None
        self._search = stop.search
        self._held = ""

    @property
    def closed(self) -> bool:
        """Whether a stop string was found."""
        return self.found is not None

    def feed(self, text: str) -> str:
        """The text that may go out now; closes where a stop string begins."""
        if self._search is None or self.closed:
            return "" if self.closed else text
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
        return "" if self.closed else self._release(len(self._held))

    def _release(self, count: int) -> str:
        out, self._held = self._held[:count], self._held[count:]
        return out


def beginning(mark: str, text: str) -> int:
    """How many of the last letters of `text` begin the mark, which does not occur in it."""
    longest = min(len(mark) - 1, len(text))
    return next((n for n in range(longest, 0, -1) if mark.startswith(text[-n:])), 0)
