"""Where a text ends: its length, and strings that stop it and are never emitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ahocorasick import STORE_LENGTH, Automaton

from marith.errors import RequestError, shown
from marith.formula.scalars import whole

LETTERS = 2_000_000  # of all stop strings: 60 MB, and a second to take them in


@dataclass(frozen=True, slots=True)
class Stop:
    """When to stop: after `max_tokens` tokens, or before the first of `strings` in the text."""

    max_tokens: int = 256
    strings: tuple[str, ...] = ()
    search: Automaton | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_tokens", whole("max_tokens", self.max_tokens, 1))
        if not isinstance(self.strings, (str, Sequence)):
            raise RequestError(f"strings is a list of texts, not {shown(self.strings)}")
        strings = (self.strings,) if isinstance(self.strings, str) else tuple(self.strings)
        for string in strings:
            if not isinstance(string, str) or not string:
                raise RequestError(f"a stop string has at least one letter: {shown(string)}")
        letters = sum(map(len, strings))
        if letters > LETTERS:
            raise RequestError(f"the stop strings have {letters:,} letters; at most {LETTERS:,}")
        object.__setattr__(self, "strings", strings)
        object.__setattr__(self, "search", _search(strings))


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


def _search(strings: tuple[str, ...]) -> Automaton | None:
    """What finds any of the strings, and knows which texts begin one; None without strings."""
    if not strings:
        return None
    search = Automaton(STORE_LENGTH)
    for string in strings:
        search.add_word(string)
    search.make_automaton()
    return search


def beginning(mark: str, text: str) -> int:
    """How many of the last letters of `text` begin the mark, which does not occur in it."""
    longest = min(len(mark) - 1, len(text))
    return next((n for n in range(longest, 0, -1) if mark.startswith(text[-n:])), 0)
