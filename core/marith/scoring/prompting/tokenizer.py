"""The tokenizer: text to tokens, tokens to text as they arrive, and the tokens that end a text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any

from tokenizers import Tokenizer

from marith.errors import ModelError, RequestError
from marith.scoring.prompting.tool_format import ToolFormat, json_text, read_tool_format

# Cutting a text inside a word gives at most this number of extra tokens.
MARGIN = 256
# This character stands for a character whose bytes are incomplete.
PARTIAL = "\ufffd"
# The texts of this number of tokens are kept.
RECENT = 8192


class Vocabulary:
    """The tokens of a model, with its tokenizer. Safe to share between threads.

    It uses a copy of the raw tokenizer, without padding or truncation: the shared fast tokenizer of
    transformers keeps padding and truncation as state, and gives wrong results without an error
    when threads set them. `width` is the number of ids that the model reads. `size` is the number
    of tokens that both the model and the tokenizer know. `holes` are ids below `size` that are
    neither a text nor the end of a text. Raises ModelError for a tokenizer that is not a fast
    tokenizer.
    """

    def __init__(self, tokenizer: Any, width: int, eos_ids: Iterable[int] = ()) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            kind = type(tokenizer).__name__
            raise ModelError(f"{kind} has no fast tokenizer; use a tokenizer with a tokenizer.json")
        self.tokenizer = tokenizer
        self._raw = _bare_copy(backend)
        self._literal = _bare_copy(backend)
        # With this setting, the name of a special token is encoded as plain characters.
        self._literal.encode_special_tokens = True
        # Texts repeat tokens, and a detokenizer decodes the token before each new token again.
        self.spell_again = lru_cache(RECENT)(partial(self._raw.decode, skip_special_tokens=False))
        self._ids: dict[str, int] = self._raw.get_vocab(with_added_tokens=True)
        self.width = width
        self.size = min(width, max(self._ids.values()) + 1)
        ends = [tokenizer.eos_token_id] if tokenizer.eos_token_id is not None else []
        self.eos_ids = frozenset({*ends, *eos_ids})
        named = {*self._ids.values(), *self.eos_ids}
        self.holes = tuple(token for token in range(self.size) if token not in named)
        added = self._raw.get_added_tokens_decoder().values()
        special = {*tokenizer.all_special_tokens, *(t.content for t in added if t.special)}
        self.special_texts = tuple(sorted(text for text in special if text))
        self._special_in_json = tuple(map(json_text, self.special_texts))

    @property
    def has_chat_template(self) -> bool:
        """True if the tokenizer has a chat template."""
        return bool(getattr(self.tokenizer, "chat_template", None))

    @cached_property
    def tool_format(self) -> ToolFormat:
        """The form of the model's tool calls and reasoning, as its chat template shows it."""
        return read_tool_format(self.tokenizer)

    @property
    def raw(self) -> Tokenizer:
        """The raw tokenizer. Callers only read it and never change its settings."""
        return self._raw

    @property
    def literal(self) -> Tokenizer:
        """The raw tokenizer for text in which names of special tokens are plain characters."""
        return self._literal

    @cached_property
    def fingerprint(self) -> str:
        """A hash that is equal for two vocabularies only if all token ids mean the same in both."""
        entries = sorted((i, text) for text, i in self._ids.items() if i < self.size)
        return hashlib.sha256(repr((self.size, entries)).encode()).hexdigest()

    @property
    def texts(self) -> dict[int, str]:
        """The text of each token, by its id."""
        return {token: text for text, token in self._ids.items() if token < self.size}

    @cached_property
    def added_ids(self) -> frozenset[int]:
        """The ids of the tokens that were added to the pieces of ordinary text."""
        return frozenset(self._raw.get_added_tokens_decoder())

    @property
    def unknown_id(self) -> int:
        """The id that stands for a token that the model does not have."""
        unknown = getattr(self.tokenizer, "unk_token_id", None)
        return int(unknown) if unknown is not None else self.start_id or 0

    @property
    def start_id(self) -> int | None:
        """The id of the token that begins an empty text: BOS, or else EOS. None without either."""
        for name in ("bos_token_id", "eos_token_id"):
            token = getattr(self.tokenizer, name, None)
            if token is not None:
                return int(token)
        return None

    def encode(
        self, text: str, *, literal: bool = True, start: bool = False, limit: int | None = None
    ) -> list[int]:
        """Return the tokens of a text.

        In a `literal` text, names of special tokens are plain characters. With `start`, the
        tokenizer adds the tokens that it puts around a whole text (mostly a first token).

        If the text has many more than `limit` tokens, only its first tokens are returned, but more
        than `limit`. This saves time: a tokenizer reads a million characters a second, and cannot
        be interrupted. Raises RequestError for a text that is not Unicode.
        """
        raw = self._literal if literal else self._raw
        try:
            if limit is not None:
                for end in _beginnings(text, limit):
                    begun = raw.encode(text[:end], add_special_tokens=False).ids
                    if len(begun) > limit + MARGIN:
                        return list(begun)
            return list(raw.encode(text, add_special_tokens=start).ids)
        # The text has half a surrogate pair, from bytes that were not UTF-8.
        except TypeError:
            raise RequestError(f"this text is not Unicode: {text[:60]!r}") from None

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without special tokens."""
        return str(self._raw.decode(list(tokens), skip_special_tokens=True))

    def spell(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, with special tokens by their names."""
        return str(self._raw.decode(list(tokens), skip_special_tokens=False))

    def require_known(self, tokens: Sequence[int], where: str) -> None:
        """Raise RequestError for a token that the model does not have."""
        if tokens and max(tokens) >= self.size:
            problem = f"{where} has token {max(tokens)}, and the model has {self.size} tokens"
            raise RequestError(problem)

    def reads_option(self, name: str) -> bool:
        """Return True if the chat template has the name of an option in its text."""
        return name in str(getattr(self.tokenizer, "chat_template", None) or "")

    def opens_reasoning(self, prompt: Sequence[int]) -> bool:
        """Return True if a prompt ends with the mark that begins reasoning.

        Some templates end a prompt with this mark.
        """
        marks = self.tool_format.thinking
        if marks is None or not self.spell(prompt[-16:]).rstrip().endswith(marks[0]):
            return False
        mark = self.encode(marks[0], literal=False)
        # A user's text that spells the mark has other tokens.
        return len(mark) > 1 or mark[0] in prompt[-16:]

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """The ids of the special tokens, which are not text."""
        return frozenset(self._ids[text] for text in self.special_texts if text in self._ids)

    def special_named(self, names: Iterable[str]) -> frozenset[int]:
        """Return the ids of the special tokens that have one of these names."""
        return self.special_ids.intersection(map(self._ids.get, names))

    def finds_special(self, data: Any) -> bool:
        """Return True if a text in `data` has a special token's name, or if `data` is not JSON.

        The names are searched in `data` as JSON. JSON escapes every character separately, so a name
        inside a text appears in the JSON in its own escaped form. The result is also True if a
        special token has the name of a JSON literal that occurs in `data`, such as `true`.
        """
        try:
            written = json.dumps(data, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            return True
        return any(text in written for text in self._special_in_json)

    def special_in(self, text: str) -> frozenset[int]:
        """Return the ids of special tokens in a text that the model writes, such as a mark."""
        return self.special_ids.intersection(self._raw.encode(text, add_special_tokens=False).ids)


def _beginnings(text: str, limit: int) -> Iterator[int]:
    """Yield the lengths of beginnings of a long text, in characters, for counting their tokens.

    Each beginning is about twice as long as the last one, and ends between two words if possible.
    All beginnings together are no longer than the text, so counting at most doubles the work.
    """
    end = max(4096, 2 * limit)
    while 2 * end <= len(text):
        space = text.rfind(" ", end - MARGIN, end)
        yield end if space < 0 else space
        end *= 2


def _bare_copy(backend: Tokenizer) -> Tokenizer:
    """Return a tokenizer around the same model, with settings of its own.

    A full copy through JSON takes seconds for a large vocabulary. It is made only if the added
    tokens differ after they are added to the new tokenizer.
    """
    copy = Tokenizer(backend.model)
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        if (own := getattr(backend, part)) is not None:
            setattr(copy, part, own)
    # Added tokens are numbered in the order in which they are added.
    copy.add_tokens([token for _, token in sorted(backend.get_added_tokens_decoder().items())])
    if _added(copy) != _added(backend):
        copy = Tokenizer.from_str(backend.to_str())
    copy.no_padding()
    copy.no_truncation()
    return copy


def _added(backend: Tokenizer) -> dict[int, str]:
    return {number: repr(token) for number, token in backend.get_added_tokens_decoder().items()}


class Detokenizer:
    """A converter of tokens to text, which returns pieces of whole characters as tokens arrive.

    The pieces join to the whole text. Special tokens are left out, except for the ids in `shown`.
    Keeps state, which `copy.copy` copies.

    In this example, the second token has the first two bytes of "東", and the third token has its
    last byte and a "b". The second token begins the character, and the third completes it:

        token     "a"   e6 9d   b1 "b"
        text      "a"   ""      "東b"
        written   1     1       3
        begun     1     2       3
    """

    def __init__(self, vocabulary: Vocabulary, shown: Collection[int] = ()) -> None:
        # This number of characters was returned so far.
        self.written = 0
        self._place = 0
        self._decode = vocabulary.raw.decode
        self._hidden = vocabulary.special_ids.difference(shown)
        # A token's text may depend on the token before it, so the last tokens are kept.
        self._tokens: tuple[int, ...] = ()
        # The text of this number of kept tokens was returned.
        self._sent = 0
        self._decode_again = vocabulary.spell_again

    @property
    def whole(self) -> int:
        """The number of whole characters in the tokens so far."""
        return self.written + len(self._rest().rstrip(PARTIAL))

    @property
    def begun(self) -> int:
        """The number of characters in the tokens so far, including one that is incomplete."""
        return self.whole + self._rest().endswith(PARTIAL)

    def place(self, data: bytes) -> int:
        """Return the index of the character in which the next token, with the bytes `data`, begins.

        A token that continues a character begins where the character begins. Any other token leaves
        an incomplete character broken, and the broken character becomes part of the text.
        """
        # In UTF-8, a byte 10xxxxxx continues a character.
        if data and data[0] & 0xC0 == 0x80:
            self._place = max(self._place, self.whole)
        else:
            self._place = self.written + len(self._rest())
        return self._place

    def feed(self, token: int) -> str:
        """Return the text that this token completes: "" while a character is incomplete."""
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
        """Return the rest of the text, incomplete characters included."""
        text = self._rest()
        self._tokens, self._sent = (), 0
        self.written += len(text)
        return text

    def _rest(self) -> str:
        """Return the text that has not been returned yet."""
        if self._sent == len(self._tokens):
            return ""
        sent = self._decode_again(self._tokens[: self._sent]) if self._sent else ""
        return str(self._decode(self._tokens, False)[len(sent) :])
