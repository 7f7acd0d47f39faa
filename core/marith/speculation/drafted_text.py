"""A text whose last tokens are pending: not all stages have verified them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

from marith.tensor_rows import Row


@dataclass(slots=True)
class Pending:
    """A token that is not final.

    `draft` is the distribution that it was drawn from, None for a token that was proposed without
    one; `source` is what drafted it, None for a token that was drawn from the whole formula.
    """

    token: int
    draft: Row | None
    source: Hashable | None


class DraftedText:
    """The tokens of a text, the last of which are pending. Keeps state.

    `most` bounds the number of tokens; `ends` are the tokens that end a text; those of `prefix`
    are final.
    """

    def __init__(self, most: int, ends: Collection[int], prefix: Sequence[int] = ()) -> None:
        self.tokens: list[int] = [*prefix]
        self.pending: list[Pending] = []  # the last tokens
        self._most, self._ends = most, ends

    @property
    def final(self) -> int:
        """How many tokens are final."""
        return len(self.tokens) - len(self.pending)

    @property
    def closed(self) -> bool:
        """Whether the last token, which is pending, ends the text."""
        return bool(self.pending) and (
            self.tokens[-1] in self._ends or len(self.tokens) >= self._most
        )

    @property
    def room(self) -> int:
        """How many tokens may be drafted, if one more must fit after them."""
        return self._most - 1 - len(self.tokens)

    def at(self, place: int) -> Pending | None:
        """The pending token at a position; None where a token is yet to be drawn."""
        index = place - self.final
        return self.pending[index] if index < len(self.pending) else None

    def append(self, token: int, draft: Row | None, source: Hashable | None) -> None:
        """Add a pending token."""
        self.tokens.append(token)
        self.pending.append(Pending(token, draft, source))

    def cut(self, place: int) -> None:
        """Take back the pending tokens from a position on."""
        del self.pending[place - self.final :], self.tokens[place:]

    def confirm(self, final: int) -> list[Pending]:
        """Make the first `final` tokens final. Returns those of them that were pending."""
        count = final - self.final
        confirmed = self.pending[:count]
        del self.pending[:count]
        return confirmed

    def rewind(self, place: int) -> None:
        """Take back the tokens from a final one on; nothing is pending."""
        del self.tokens[place:], self.pending[:]
