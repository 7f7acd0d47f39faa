"""Tokens → text as they arrive: whole characters only."""

from __future__ import annotations

from collections.abc import Collection

from marith.scoring.prompting.tokenizer import Vocabulary

PARTIAL = "\ufffd"  # stands for a character of which bytes are missing


class Detokenizer:
    """Tokens → text as they arrive: whole characters only, and joined equal to the whole text.

    Special tokens are left out, but for those that are `shown`. Keeps state, which `copy.copy`
    copies. Of "a", the first two bytes of "東", and its last byte with a "b", the second token
    begins "東", and the third completes it:

        token     "a"   e6 9d   b1 "b"
        text      "a"   ""      "東b"
        written   1     1       3
        begun     1     2       3
    """

    def __init__(self, vocabulary: Vocabulary, shown: Collection[int] = ()) -> None:
        self.written = 0  # how many characters have been returned
        self._place = 0
        self._decode = vocabulary.raw.decode
        self._hidden = vocabulary.special_ids.difference(shown)
        self._tokens: tuple[int, ...] = ()  # the last ones: a token's text may depend on the one
        self._sent = 0  # before it; the text of so many of them has been returned

    @property
    def whole(self) -> int:
        """How many whole characters the tokens so far have."""
        return self.written + len(self._rest().rstrip(PARTIAL))

    @property
    def begun(self) -> int:
        """How many characters the tokens so far have begun: one whose bytes are missing counts."""
        return self.whole + self._rest().endswith(PARTIAL)

    def place(self, data: bytes) -> int:
        """Return the number of the character in which the next token, with these bytes, begins.

        A token that goes on with a character begins where the character does; one that does not
        leaves a character broken, which is in the text then.
        """
        if data and data[0] & 0xC0 == 0x80:  # in UTF-8, a byte that begins no character
            self._place = max(self._place, self.whole)
        else:
            self._place = self.written + len(self._rest())
        return self._place

    def feed(self, token: int) -> str:
        """The text that this token completes; empty while a character is incomplete."""
        if token in self._hidden:
            return ""
        self._tokens = (*self._tokens, token)
        text = self._rest()
        if not text or text.endswith(PARTIAL):
            return ""
        self._tokens = self._tokens[self._sent :]
        self._sent = len(self._tokens)
        self.written += len(text)
        return text

    def flush(self) -> str:
        """The rest, broken characters included."""
        text = self._rest()
        self._tokens, self._sent = (), 0
        self.written += len(text)
        return text

    def _rest(self) -> str:
        """The text that has not been returned."""
        if self._sent == len(self._tokens):
            return ""
        sent = self._decode(self._tokens[: self._sent], False) if self._sent else ""
        return str(self._decode(self._tokens, False)[len(sent) :])
