"""Computes which tokens a grammar allows after a text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from torch import Tensor

from marith.errors import RequestError
from marith.request.forms.grammar import LIMITS, one_line

CANNOT_WRITE = (
    "the grammar asks for text that this vocabulary cannot write; JSON and calls of tools need a "
    "model whose tokens have letters, digits and punctuation"
)
_MARK = b"\xff"  # before the name of a special token; no text has this byte
_STUCK = "NoExtensionBias"  # llguidance's error when no token is possible


class Lexicon:
    """The tokens of a vocabulary as bytes, as grammars read them.

    `raw` is a `tokenizers.Tokenizer` for which the names of special tokens are text. Tokens from
    `size` on do not exist. `ends` are the tokens that end a text; a grammar allows them where a
    text may end. Safe to share between threads.
    """

    def __init__(self, raw: Any, size: int, ends: Sequence[int]) -> None:
        self.size = size
        self._raw = raw
        self.tokenizer = _tokenizer(raw, size, sorted(ends))

    def is_special(self, token: int) -> bool:
        """Return True if the token has no text in a grammar, and is named there by its number."""
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
        self._fresh = LLMatcher(lexicon.tokenizer, source, log_level=0, limits=LIMITS)
        _require_sound(self._fresh)

    def matcher(self) -> LLMatcher:
        """Return a matcher at the beginning of a text."""
        return self._fresh.deep_copy()


class Matcher:
    """Computes which tokens are allowed at places of a text, which may be cut and drafted again.

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
        self.refusal = ""  # why the grammar does not allow the next token

    def allowed(self, text: Sequence[int], places: Sequence[int]) -> Tensor:
        """Return a mask [places, vocab] of the tokens that are allowed after `text[:place]`.

        After a drafted token that is not allowed, the mask allows every token: verification drops
        that draft.
        """
        order = sorted(set(places))
        before = list(text[: order[0]])
        if self._read != before[: len(self._read)]:
            self._restart()
        matcher, self.reached = self._matcher, len(self._read)
        rows: dict[int, Tensor] = {}
        allowed_so_far = True
        for place in order:
            if rows and matcher is self._matcher:
                matcher = matcher.deep_copy()
            if allowed_so_far:
                self.reached += matcher.try_consume_tokens(list(text[self.reached : place]))
                allowed_so_far = self.reached == place
                self.refusal = "" if allowed_so_far else _problem(matcher) or CANNOT_WRITE
            rows[place] = self._mask(matcher) if allowed_so_far else self._every_token()
        self._read = before
        if self.reached < order[0]:
            self._restart()  # the matcher has rejected a token, and cannot go on
        return torch.stack([rows[place] for place in places])

    def _restart(self) -> None:
        self._matcher, self._read = self._grammar.matcher(), []

    def _every_token(self) -> Tensor:
        return torch.ones(self._size, dtype=torch.bool)

    def _mask(self, matcher: LLMatcher) -> Tensor:
        packed = torch.frombuffer(bytearray(matcher.compute_bitmask()), dtype=torch.uint8)
        _require_sound(matcher)
        bits = (packed[:, None] >> torch.arange(8, dtype=torch.uint8)) & 1
        return bits.flatten()[: self._size].bool()


def _require_sound(matcher: LLMatcher) -> None:
    if problem := _problem(matcher):
        raise RequestError(problem)


def _problem(matcher: LLMatcher) -> str:
    """Return why a matcher has stopped, for example a limit of llguidance; "" if it can go on."""
    if not matcher.is_error():
        return ""
    problem = matcher.get_error()
    if _STUCK in problem:
        return CANNOT_WRITE
    return f"the grammar cannot be followed: {one_line(problem)}"


def _tokenizer(raw: Any, size: int, ends: list[int]) -> LLTokenizer:
    """Return llguidance's tokenizer, which splits text by `raw`.

    llguidance needs a token that ends a text. If the vocabulary has no such token, one is added.
    """
    count = max(size, raw.get_vocab_size(with_added_tokens=True))
    if not ends:
        ends, count, size = [count], count + 1, count + 1
    encoder = _Encoder(raw, _bytes_of(raw, size, count, ends), ends[0])
    return LLTokenizer(TokenizerWrapper(encoder), n_vocab=count, eos_token=ends)


def _bytes_of(raw: Any, size: int, count: int, ends: list[int]) -> list[bytes]:
    """Return the bytes of `count` tokens. A special token has its name, behind a mark."""
    try:
        known = LLTokenizer(raw.to_str(), n_vocab=count, eos_token=ends, slices=[])
    except ValueError:  # a kind of tokenizer whose definition llguidance does not read
        added = raw.get_added_tokens_decoder()
        special = {i for i, token in added.items() if token.special} | set(ends)
        texts = [
            (raw.id_to_token(i) or f"[{i}]" if i in special else raw.decode([i])).encode()
            for i in range(size)
        ]
    else:
        special = {i for i in range(size) if known.is_special_token(i)}
        texts = [bytes(known.decode_bytes([i])) for i in range(size)]
    marked = [_MARK + text if i in special else text for i, text in enumerate(texts)]
    return marked + [b""] * (count - size)


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
        # A tokenizer puts a space before the first letter alone, so another letter goes before it.
        for first in ("", "\x01"):
            tokens = self._ids(first + text)[len(self._ids(first)) :]
            if b"".join(self.tokens[token] for token in tokens) == data:
                return tokens
        return self._longest(data)

    def _ids(self, text: str) -> list[int]:
        return list(self._raw.encode(text, add_special_tokens=False).ids)

    def _longest(self, data: bytes) -> list[int]:
        """Return the longest tokens with these bytes, or no tokens if the vocabulary lacks them."""
        ids, longest = self._by_bytes
        steps: dict[int, tuple[int, int]] = {}  # from a place: a token, and the place after it
        for place in reversed(range(len(data))):
            for end in range(min(place + longest, len(data)), place, -1):
                token = ids.get(data[place:end])
                if token is not None and (end in steps or end == len(data)):
                    steps[place] = token, end
                    break
        tokens, place = [], 0
        while place in steps:
            token, place = steps[place]
            tokens.append(token)
        return tokens

    @cached_property
    def _by_bytes(self) -> tuple[dict[bytes, int], int]:
        return {data: i for i, data in enumerate(self.tokens)}, max(map(len, self.tokens))
