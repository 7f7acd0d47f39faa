"""A text whose last tokens are pending: not every stage has verified them."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass

from marith.tensor_rows import Row


@dataclass(slots=True)
class Pending:
    """A token that is not final.

    `draft` is the distribution that it was drawn from, None for a token that was proposed outright;
    `source` says what drafted it, None for a token that the whole formula has drawn.
    """

    token: int
    draft: Row | None
    source: Hashable | None


class DraftedText:
    """The tokens of a text, and of the last ones how they were drafted. Keeps state.

    `most` bounds the tokens, and `ends` are those that end a text.
    """

    def __init__(self, most: int, ends: Collection[int]) -> None:
        self.tokens: list[int] = []
        self.pending: list[Pending] = []  # the last tokens
        self._most, self._ends = most, ends

    @property
    def final(self) -> int:
        """How many tokens are final."""
        return len(self.tokens) - len(self.pending)

    @property
    def closed(self) -> bool:
        """Whether the last token, though pending, leaves no place for another."""
        return bool(self.pending) and (
            self.tokens[-1] in self._ends or len(self.tokens) >= self._most
        )

    @property
    def room(self) -> int:
        """How many tokens may be drafted, with a place left for one more."""
        return self._most - 1 - len(self.tokens)

    def at(self, place: int) -> Pending | None:
        """The pending token at a position; None where a token is yet to be drawn."""
        index = place - self.final
        return self.pending[index] if index < len(self.pending) else None

    def append(self, token: int, draft: Row | None, source: Hashable | None) -> None:
        """One more pending token."""
        self.tokens.append(token)
        self.pending.append(Pending(token, draft, source))

    def cut(self, place: int) -> None:
        """Take back the pending tokens from a position on."""
        del self.pending[place - self.final :], self.tokens[place:]

    def confirm(self, final: int) -> list[Pending]:
        """So many tokens are final now. Returns those that were pending."""
        count = final - self.final
        confirmed = self.pending[:count]
        del self.pending[:count]
        return confirmed

    def rewind(self, place: int) -> None:
        """Take back the tokens from a final one on; nothing is pending."""
        del self.tokens[place:], self.pending[:]
