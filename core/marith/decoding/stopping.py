"""Where a text ends: its length, and strings that stop it and are never emitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from marith.errors import RequestError


@dataclass(frozen=True, slots=True)
class Stop:
    """When to stop: after `max_tokens` tokens, or before the first of `strings` in the text."""

    max_tokens: int = 256
    strings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        whole = isinstance(self.max_tokens, int) and not isinstance(self.max_tokens, bool)
        if not whole or self.max_tokens < 1:
            raise RequestError(f"max_tokens is a whole number from 1, not {self.max_tokens!r}")
        if not isinstance(self.strings, (str, Sequence)):
            raise RequestError(f"strings is a list of texts, not {self.strings!r}")
        strings = (self.strings,) if isinstance(self.strings, str) else tuple(self.strings)
        for string in strings:
            if not isinstance(string, str) or not string:
                raise RequestError(f"a stop string is a text of at least one letter: {string!r}")
        object.__setattr__(self, "strings", strings)


class TextGate:
    """Lets text out once it can no longer be part of a stop string. Holds the rest back."""

    def __init__(self, strings: tuple[str, ...]) -> None:
        self.strings = strings
        self.found: str | None = None
        self._held = ""

    @property
    def closed(self) -> bool:
        """Whether a stop string was found."""
        return self.found is not None

    def feed(self, text: str) -> str:
        """The text that may go out now; closes where a stop string begins."""
        if self.closed:
            return ""
        self._held += text
        found = [(at + len(s), at, s) for s in self.strings if (at := self._held.find(s)) >= 0]
        if found:
            _, at, self.found = min(found)  # the first to be complete
            return self._release(at)
        suspect = max((beginning(s, self._held) for s in self.strings), default=0)
        return self._release(len(self._held) - suspect)

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
