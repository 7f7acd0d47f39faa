"""Compare tokens with the canonical ones: those that a tokenizer writes for their text."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Sequence
from functools import lru_cache

from marith.scoring.lane_text import common
from marith.scoring.prompting.tokenizer import RECENT, Vocabulary
from marith.scoring.terms.over_bytes.sorted_tokens import SortedTokens

# No token joins this character to its neighbors. A tokenizer that puts a space before a text puts
# it before this character. After spaces, this character stands for any other word.
_ANCHOR = "\x01"
# A token is compared with this number of tokens before it, or with more if they are not canonical
# by themselves.
_WINDOW = 8


class CanonicalTokens:
    """The tokens that the tokenizer of a model writes.

    Safe to share between threads. Keeps recent results, which never change.
    """

    def __init__(self, vocabulary: Vocabulary, tokens: SortedTokens) -> None:
        self._tokens, self._literal = tokens, vocabulary.literal
        puts_space_first = tokens.bytes_of(self._ids("a")) != b"a"
        self._first = _ANCHOR if puts_space_first else ""
        self._skipped = len(self._ids(self._first))
        self.has = lru_cache(RECENT)(self._has)

    def goes_on(self, before: Sequence[int], token: int) -> bool:
        """Return True if the tokenizer writes the text of `before` and `token` as these tokens.

        A character whose bytes are incomplete is not compared yet. A text that is not UTF-8 has no
        canonical tokens.
        """
        if token in self._tokens.marks:
            return True
        before = self._after_mark(before)
        size = _WINDOW
        while size < len(before):
            window = tuple(before[-size:])
            if self.has((*window, token)):
                return True
            # The window may begin inside a word that has other tokens by itself.
            if self.has(window):
                return False
            size *= 4
        return self.has((*before, token))

    def last(self, tokens: Sequence[int]) -> Sequence[int]:
        """Return the last tokens of a text, with which the tokens that follow it are compared.

        They do not begin inside a character, because a part of it would not be UTF-8.
        """
        start = max(0, len(tokens) - _WINDOW)
        while start and 0x80 <= next(iter(self._tokens.bytes_of_token[tokens[start]]), 0) < 0xC0:
            start -= 1
        return tokens[start:]

    def count_same(self, tokens: Sequence[int], text: bytes, word_follows: bool = False) -> int:
        """Return how many of the first tokens the tokenizer writes for a text as well.

        With `word_follows`, the text has a word after it. An incomplete character at the end of the
        text is left out.
        """
        decoded, _ = _decoded(text)
        if decoded is None:
            return 0
        written = self._encode(decoded + _ANCHOR if word_follows else decoded)
        return common([*tokens], written)

    def _after_mark(self, tokens: Sequence[int]) -> Sequence[int]:
        """Return the tokens after the last mark. The text around a mark is encoded by itself."""
        marks = self._tokens.marks
        places = (place for place in range(len(tokens), 0, -1) if tokens[place - 1] in marks)
        return tokens[next(places, 0) :] if marks else tokens

    def _has(self, tokens: tuple[int, ...]) -> bool:
        """Return True if the tokenizer writes the text of the tokens as these tokens."""
        text, is_part = _decoded(self._tokens.bytes_of(tokens))
        while is_part and tokens:
            # The tokens up to the last boundary between two characters are compared.
            tokens = tokens[:-1]
            text, is_part = _decoded(self._tokens.bytes_of(tokens))
        if text is None:
            return False
        own = [*tokens]
        if self._encode(text) == own:
            return True
        # Many tokenizers split the last one of several spaces off if a word follows.
        return text[-1:].isspace() and self._encode(text + _ANCHOR)[: len(own)] == own

    def _encode(self, text: str) -> list[int]:
        return self._ids(self._first + text)[self._skipped :]

    def _ids(self, text: str) -> list[int]:
        return list(self._literal.encode(text, add_special_tokens=False).ids)


def _decoded(data: bytes) -> tuple[str | None, bool]:
    """Return the characters of bytes, and True if an incomplete character follows them.

    The characters are None if the bytes are not UTF-8.
    """
    decoder = getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(data)
    except UnicodeDecodeError:
        return None, False
    return text, bool(decoder.getstate()[0])
