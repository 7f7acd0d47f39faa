"""Compute which tokens a grammar allows after a text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from torch import Tensor

from marith.errors import RequestError
from marith.request.forms.grammar import LIMITS, one_line
from marith.token_bytes import bytes_of_tokens

CANNOT_WRITE = (
    "the grammar asks for text that this vocabulary cannot write; JSON and calls of tools need a "
    "model whose tokens have letters, digits and punctuation"
)
# This byte precedes the name of a special token. No text has it.
_MARK = b"\xff"
_STUCK = "NoExtensionBias"  # llguidance's error if no token is possible


class Lexicon:
    """The tokens of a vocabulary as bytes, as grammars read them.

    `raw` is a `tokenizers.Tokenizer` for which the names of special tokens are text. Tokens from
    `size` on do not exist. `ends` are the tokens that end a text; a grammar allows them where a
    text may end. Safe to share between threads.
    """

    def __init__(self, raw: Any, size: int, ends: Sequence[int]) -> None:
        self.size = size
        self._raw = raw
        count = max(size, raw.get_vocab_size(with_added_tokens=True))
        # llguidance needs a token that ends a text.
        if not ends:
            ends, count, size = [count], count + 1, count + 1
        tokens = _marked_bytes(raw, size, count, sorted(ends))
        self.lacks_bytes = len(tokens) > count  # True if some byte is not a token by itself
        self.tokenizer = LLTokenizer(
            TokenizerWrapper(_Encoder(raw, tokens, min(ends))),
            n_vocab=len(tokens),
            eos_token=sorted(ends),
        )

    def is_special(self, token: int) -> bool:
        """Return True if grammars name the token by its id, and not by its text."""
        return bool(self.tokenizer.is_special_token(token))

    def data_of(self, token: int) -> bytes:
        """Return the bytes of a token's text, or the bytes of the name of a special token."""
        if self.is_special(token):
            return str(self._raw.id_to_token(token) or "").encode()
        return bytes(self.tokenizer.decode_bytes([token]))


class Compiled:
    """A grammar over the tokens of a vocabulary. Safe to share between threads.

    `source` is the source of a `Grammar`. Raises RequestError for a grammar that cannot be
    followed.
    """

    def __init__(self, source: str, lexicon: Lexicon) -> None:
        self.size = lexicon.size
        self.letters = len(source)
        self.lacks_bytes = lexicon.lacks_bytes
        self._lexicon = lexicon
        self._fresh = LLMatcher(lexicon.tokenizer, source, log_level=0, limits=LIMITS)
        if self._fresh.is_error():
            raise RequestError(_cannot_follow(self._fresh))

    def matcher(self) -> LLMatcher:
        """Return a matcher at the beginning of a text."""
        return self._fresh.deep_copy()

    def refusal(self, text: Sequence[int], reached: int) -> str:
        """Return why the grammar refuses a text after its first `reached` tokens."""
        matcher = self.matcher()
        matcher.try_consume_tokens(list(text[:reached]))
        row = _row(matcher)
        if not matcher.is_error() and not row[: self.size].any():
            return CANNOT_WRITE
        if not matcher.is_error() and reached < len(text):
            if not row[text[reached]]:
                return f"the grammar does not allow the text after {self._end(text[:reached])}"
            # The next token is allowed, but nothing may follow it.
            reached += 1
            matcher.try_consume_tokens([text[reached - 1]])
        if matcher.is_error() and _STUCK not in matcher.get_error():
            return _cannot_follow(matcher)
        return f"no text matches the part of the grammar after {self._end(text[:reached])}"

    def _end(self, text: Sequence[int]) -> str:
        return repr(self._lexicon.tokenizer.decode_str(list(text))[-40:])


class Matcher:
    """Computes which tokens a grammar allows at places of a text, whose end may be replaced.

    Keeps state, for one thread: the text that it has read, so that only new tokens are read. The
    mask of a text depends on that text only. A copy reads drafted tokens and is dropped afterwards,
    because llguidance's own rollback is wrong in nested grammars (version 1.9).
    """

    def __init__(self, grammar: Compiled) -> None:
        self._grammar = grammar
        self._size = grammar.size
        self._read: list[int] = []
        self._matcher = grammar.matcher()
        self.reached = 0  # the number of tokens of the last text that the grammar allows
        self._text: Sequence[int] = ()  # the last text
        self._place = 0  # the last place in it

    @property
    def refusal(self) -> str:
        """The reason why the grammar does not allow the next token of the last text."""
        allowed = self.reached == self._place
        return "" if allowed else self._grammar.refusal(self._text, self.reached)

    def allowed(self, text: Sequence[int], places: Sequence[int]) -> Tensor:
        """Return a mask [places, vocab] of the tokens that are allowed after `text[:place]`.

        After a drafted token that is not allowed, the mask allows every token, because verification
        drops that draft.
        """
        order = sorted(set(places))
        before = list(text[: order[0]])
        if self._read != before[: len(self._read)]:
            self._restart()
        matcher, self.reached = self._matcher, len(self._read)
        self._text, self._place = text, order[-1]
        rows: dict[int, Tensor] = {}
        allowed_so_far = True
        for place in order:
            if rows and matcher is self._matcher:
                # Tokens after the first place may be dropped later, so a copy reads them.
                matcher = matcher.deep_copy()
            if allowed_so_far:
                self.reached += matcher.try_consume_tokens(list(text[self.reached : place]))
                allowed_so_far = self.reached == place
            rows[place] = self._mask(matcher) if allowed_so_far else self._every_token()
        self._read = before
        if self.reached < order[0]:
            # A matcher that has rejected a token cannot go on.
            self._restart()
        return torch.stack([rows[place] for place in places])

    def _restart(self) -> None:
        self._matcher, self._read = self._grammar.matcher(), []

    def _every_token(self) -> Tensor:
        return torch.ones(self._size, dtype=torch.bool)

    def _mask(self, matcher: LLMatcher) -> Tensor:
        row = _row(matcher)[: self._size]
        if matcher.is_error() or (self._grammar.lacks_bytes and not row.any()):
            self._restart()
            raise RequestError(self._grammar.refusal(self._text, self.reached))
        return row


def _row(matcher: LLMatcher) -> Tensor:
    """Return the mask of the tokens that a matcher allows.

    If bytes are missing in the vocabulary, the tokens that stand for them follow at the end.
    """
    packed = torch.frombuffer(bytearray(matcher.compute_bitmask()), dtype=torch.uint8)
    bits = (packed[:, None] >> torch.arange(8, dtype=torch.uint8)) & 1
    return bits.flatten().bool()


def _cannot_follow(matcher: LLMatcher) -> str:
    return f"the grammar cannot be followed: {one_line(matcher.get_error())}"


def _marked_bytes(raw: Any, size: int, count: int, ends: list[int]) -> list[bytes]:
    """Return the bytes of `count` tokens. For a special token, these are a mark and its name.

    At the end, one token is added for each byte that is not a token by itself. A grammar that
    allows only such tokens needs a byte that the vocabulary lacks.
    """
    texts, special = bytes_of_tokens(raw, count, ends)
    marked = [_MARK + text if i in special else text for i, text in enumerate(texts[:size])]
    # The byte 255 is the mark, which no text has.
    missing = {bytes([byte]) for byte in range(255)}.difference(marked)
    return [*marked, *[b""] * (count - size), *sorted(missing)]


class _Encoder:
    """Splits a text into tokens whose bytes are exactly the bytes of the text.

    llguidance asks for the tokens of the text that a grammar forces. The tokens that `raw` gives
    may have other bytes, because some tokenizers put a space before a text, change letters, or read
    names of special tokens. Such a text is split into the longest tokens that fit.
    """

    def __init__(self, raw: Any, tokens: list[bytes], end: int) -> None:
        self.tokens, self.eos_token_id, self.bos_token_id = tokens, end, None
        self._raw = raw

    def __call__(self, text: str) -> list[int]:
        data = text.encode()
        tokens = self._ids(text)
        if self._bytes_of(tokens) != data:
            # A tokenizer may put a space before the first letter, so U+0001 is put before the text,
            # and the tokens of U+0001 are removed.
            tokens = self._ids(f"\x01{text}")[len(self._ids("\x01")) :]
        return tokens if self._bytes_of(tokens) == data else self._longest(data)

    def _bytes_of(self, tokens: list[int]) -> bytes:
        return b"".join([self.tokens[token] for token in tokens])

    def _ids(self, text: str) -> list[int]:
        return list(self._raw.encode(text, add_special_tokens=False).ids)

    def _longest(self, data: bytes) -> list[int]:
        ids, longest = self._by_bytes
        tokens = []
        while data:
            end = next(end for end in range(longest, 0, -1) if data[:end] in ids)
            tokens.append(ids[data[:end]])
            data = data[end:]
        return tokens

    @cached_property
    def _by_bytes(self) -> tuple[dict[bytes, int], int]:
        return {data: i for i, data in enumerate(self.tokens)}, max(map(len, self.tokens))
