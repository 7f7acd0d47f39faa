"""Which tokens a tokenizer writes: the canonical tokens of a text, and how a prompt ends."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Sequence
from functools import lru_cache

from marith.scoring.prompting.tokenizer import RECENT, Vocabulary
from marith.scoring.terms.over_bytes.sorted_tokens import SortedTokens

# No token joins this character to its neighbors. A tokenizer that puts a space before a text puts
# it before this character. After spaces, this character stands for any other word.
_ANCHOR = "\x01"
# A token is checked with this number of tokens before it, or with more if they are not canonical by
# themselves.
_WINDOW = 8


class Canonical:
    """Compares tokens with those that the tokenizer of a model writes.

    Safe to share between threads. Keeps recent results, which never change.
    """

    def __init__(self, vocabulary: Vocabulary, tokens: SortedTokens) -> None:
        self._tokens, self._literal = tokens, vocabulary.literal
        self._anchor: list[int] = []
        if tokens.bytes_of(self._encode("a")) != b"a":
            self._anchor = self._encode(_ANCHOR)
        self._is_canonical = lru_cache(RECENT)(self._compare)

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
            if self._is_canonical((*window, token)):
                return True
            # The window may begin inside a word that has other tokens by itself.
            if self._is_canonical(window):
                return False
            size *= 4
        return self._is_canonical((*before, token))

    def last(self, tokens: Sequence[int]) -> Sequence[int]:
        """Return the last tokens of a text, with which the tokens that follow it are compared.

        They do not begin inside a character, because a part of it would not be UTF-8.
        """
        start = max(0, len(tokens) - _WINDOW)
        while start and 0x80 <= next(iter(self._tokens.data[tokens[start]]), 0) < 0xC0:
            start -= 1
        return tokens[start:]

    def firm(self, prompt: Sequence[int], special: frozenset[int]) -> int:
        """Return how many tokens of a prompt stay, whatever text follows the prompt.

        A token that begins in the last bytes of the prompt and is longer may take their place. Then
        the tokens after its beginning may change. Tokens up to the last special token stay.
        """
        data = self._tokens.data
        last = max((i + 1 for i, token in enumerate(prompt) if token in special), default=0)
        text = self._tokens.bytes_of(prompt[last:])
        longest = max(map(len, data))
        firm = self._same(prompt[last:], text + _ANCHOR.encode())
        for place in range(max(0, len(text) - longest), len(text)):
            if self._tokens.goes_beyond(text[place:]):
                firm = min(firm, self._same(prompt[last:], text[:place]))
        return last + firm

    def _same(self, tokens: Sequence[int], begun: bytes) -> int:
        """Return how many of the first tokens a beginning of their text has as well."""
        text, _ = _decoded(begun)
        if text is None:
            return 0
        count = 0
        for own, other in zip(tokens, self._encode(text), strict=False):
            if own != other:
                break
            count += 1
        return count

    def _after_mark(self, tokens: Sequence[int]) -> Sequence[int]:
        """Return the tokens after the last mark. The text around a mark is encoded by itself."""
        for place in range(len(tokens) - 1, -1, -1):
            if tokens[place] in self._tokens.marks:
                return tokens[place + 1 :]
        return tokens

    def _compare(self, tokens: tuple[int, ...]) -> bool:
        text, is_part = _decoded(self._tokens.bytes_of(tokens))
        while is_part and tokens:
            # The tokens up to the last boundary between two characters are compared.
            tokens = tokens[:-1]
            text, is_part = _decoded(self._tokens.bytes_of(tokens))
        if text is None:
            return False
        written = [*tokens]
        if self._encode(text) == written:
            return True
        # Many tokenizers split the last one of several spaces off if a word follows.
        return text[-1:].isspace() and self._encode(text + _ANCHOR)[: len(written)] == written

    def _encode(self, text: str) -> list[int]:
        before = _ANCHOR if self._anchor else ""
        ids = self._literal.encode(before + text, add_special_tokens=False).ids
        return list(ids[len(self._anchor) :])


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
