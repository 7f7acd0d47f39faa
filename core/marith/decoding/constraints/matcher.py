"""Which tokens may follow a text that a grammar describes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper
from torch import Tensor

from marith.errors import RequestError
from marith.request.grammar import LIMITS, one_line

CANNOT_WRITE = "the grammar asks for text that this vocabulary cannot write"


class Lexicon:
    """The tokens of a vocabulary as bytes, which is how a grammar reads them.

    `raw` is a `tokenizers.Tokenizer`; tokens from `size` on do not exist; `ends` are the tokens
    that end a text, which a grammar allows where a text may end. Safe to share between threads.
    """

    def __init__(self, raw: Any, size: int, ends: Sequence[int]) -> None:
        self.size = size
        self._raw = raw
        self.tokenizer = _tokenizer(raw, size, sorted(ends))

    def is_special(self, token: int) -> bool:
        """Whether the token is no text to a grammar, which so must name it by its number."""
        return bool(self.tokenizer.is_special_token(token))

    def data_of(self, token: int) -> bytes:
        """The bytes of a token's text; a special token's are those of its name."""
        if self.is_special(token):
            return str(self._raw.id_to_token(token) or "").encode()
        return bytes(self.tokenizer.decode_bytes([token]))


class Compiled:
    """A grammar over the tokens of a vocabulary. Safe to share between threads.

    `source` is a grammar's. Raises RequestError for what cannot be followed.
    """

    def __init__(self, source: str, lexicon: Lexicon) -> None:
        self.size = lexicon.size
        self.letters = len(source)
        self._fresh = LLMatcher(lexicon.tokenizer, source, log_level=0, limits=LIMITS)
        _require_sound(self._fresh)

    def matcher(self) -> LLMatcher:
        """Who reads a text from its beginning."""
        return self._fresh.deep_copy()


class Matcher:
    """Which tokens may follow, at any place of a text that is drafted, cut back and drafted anew.

    Keeps how far it has read, for one thread, so that a text that goes
    on costs no more than what is new; the mask of a text depends on that text alone. It never
    goes back: a matcher of llguidance 1.9 that does, out of a nested grammar, may take what follows
    for part of another one. It reads what is drafted with a copy, which is thrown away.
    """

    def __init__(self, grammar: Compiled) -> None:
        self._grammar = grammar
        self._size = grammar.size
        self._read: list[int] = []
        self._matcher = grammar.matcher()
        self.reached = 0  # how many tokens of the last text may stand where they stand
        self.refusal = ""  # why no more of them may

    def allowed(self, text: Sequence[int], places: Sequence[int]) -> Tensor:
        """True for the tokens that may follow so many tokens of `text`: [places, vocab].

        After a token that may not stand where it stands, every token: it will not be kept.
        """
        order = sorted(set(places))
        begun = list(text[: order[0]])
        if self._read != begun[: len(self._read)]:
            self._begin()
        matcher, self.reached = self._matcher, len(self._read)
        rows: dict[int, Tensor] = {}
        goes_on = True
        for place in order:
            if rows and matcher is self._matcher:
                matcher = matcher.deep_copy()
            if goes_on:
                self.reached += matcher.try_consume_tokens(list(text[self.reached : place]))
                goes_on = self.reached == place
                self.refusal = "" if goes_on else _problem(matcher) or CANNOT_WRITE
            rows[place] = self._mask(matcher) if goes_on else self._anything()
        self._read = begun
        if self.reached < order[0]:
            self._begin()  # it has met what it does not take
        return torch.stack([rows[place] for place in places])

    def _begin(self) -> None:
        self._matcher, self._read = self._grammar.matcher(), []

    def _anything(self) -> Tensor:
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
    """What a matcher has stopped at, a bound of its own; empty for one that can go on."""
    if not matcher.is_error():
        return ""
    return f"the grammar cannot be followed: {one_line(matcher.get_error())}"


def _tokenizer(raw: Any, size: int, ends: list[int]) -> LLTokenizer:
    """By the tokenizer's own definition, or else by what each of its tokens is decoded to.

    Where nothing ends a text, one more token stands for that: llguidance must have one.
    """
    count = max(size, raw.get_vocab_size(with_added_tokens=True))
    if not ends:
        ends, count, size = [count], count + 1, count + 1
    try:
        return LLTokenizer(raw.to_str(), n_vocab=count, eos_token=ends)
    except ValueError:  # a kind of tokenizer whose definition llguidance does not read
        return LLTokenizer(TokenizerWrapper(_Spelt(raw, size, ends)), n_vocab=size, eos_token=ends)


class _Spelt:
    """A tokenizer's tokens as each is decoded, special ones aside."""

    def __init__(self, raw: Any, size: int, ends: list[int]) -> None:
        added = raw.get_added_tokens_decoder()
        special = {i for i, token in added.items() if token.special} | set(ends)
        self.eos_token_id, self.bos_token_id = ends[0], None
        self.special_token_ids = sorted(i for i in special if i < size)
        self.tokens = [
            (raw.id_to_token(i) or f"[{i}]" if i in special else raw.decode([i])).encode()
            for i in range(size)
        ]
        self._raw = raw

    def __call__(self, text: str) -> list[int]:
        return list(self._raw.encode(text, add_special_tokens=False).ids)
