"""The tokenizer: text → tokens, tokens → text as they arrive, and the tokens that end a text."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from tokenizers import Tokenizer

from marith.errors import ModelError, RequestError
from marith.scoring.prompting.tool_format import ToolFormat, json_text, read_tool_format

_log = logging.getLogger(__name__)
MARGIN = 256  # a word that is cut may have so many tokens more than the whole one
PARTIAL = "\ufffd"  # stands for a character of which bytes are missing


class Vocabulary:
    """What tokens there are. Safe to share between threads.

    Works on a copy of the raw tokenizer, without padding or truncation: the shared fast tokenizer
    of transformers keeps these as state and corrupts silently when threads set them.
    `size` counts the tokens that both the model and the tokenizer know, and `holes`: numbers below
    it that are neither a text nor the end of one.
    """

    def __init__(self, tokenizer: Any, width: int, eos_ids: Iterable[int] = ()) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            kind = type(tokenizer).__name__
            raise ModelError(f"{kind} has no fast tokenizer; one with a tokenizer.json is needed")
        self.tokenizer = tokenizer
        self._said = False
        self._raw = _bare_copy(backend)
        self._literal = _bare_copy(backend)
        self._literal.encode_special_tokens = True
        self._ids: dict[str, int] = self._raw.get_vocab(with_added_tokens=True)
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
        """Whether the tokenizer says how a chat is written."""
        return bool(getattr(self.tokenizer, "chat_template", None))

    def say_it_has_no_template(self) -> None:
        """Log, once, that the tokenizer has no chat template and how messages are written then."""
        if not self._said:
            self._said = True
            _log.warning(
                "the tokenizer has no chat template: the turns of a chat are written as plain "
                'text, `User: …` and `Assistant: …`; template="plain" of a term says it is meant'
            )

    @cached_property
    def tool_format(self) -> ToolFormat:
        """How the model calls tools and thinks aloud, as its chat template shows."""
        return read_tool_format(self.tokenizer)

    @property
    def raw(self) -> Tokenizer:
        """The tokenizer itself, to be read and never set."""
        return self._raw

    @cached_property
    def fingerprint(self) -> str:
        """Equal for two vocabularies exactly when every token has the same number in both."""
        entries = sorted((i, text) for text, i in self._ids.items() if i < self.size)
        return hashlib.sha256(repr((self.size, entries)).encode()).hexdigest()

    @property
    def start_id(self) -> int | None:
        """The token that may stand before an empty text."""
        for name in ("bos_token_id", "eos_token_id"):
            token = getattr(self.tokenizer, name, None)
            if token is not None:
                return int(token)
        return None

    def encode(
        self, text: str, *, literal: bool = True, start: bool = False, limit: int | None = None
    ) -> list[int]:
        """Text → tokens. `literal` text is data: the names of special tokens in it are letters.

        `start` adds what the tokenizer puts around a text of its own (mostly a first token). Of a
        text that has many more than `limit` tokens only a beginning is read, which has more too: a
        tokenizer reads a million letters a second, and nobody can interrupt it.
        """
        raw = self._literal if literal else self._raw
        try:
            if limit is not None:
                for end in _beginnings(text, limit):
                    begun = raw.encode(text[:end], add_special_tokens=False).ids
                    if len(begun) > limit + MARGIN:
                        return list(begun)
            return list(raw.encode(text, add_special_tokens=start).ids)
        except TypeError:  # half a surrogate pair: bytes that were no UTF-8
            raise RequestError(f"this text is not Unicode: {text[:60]!r}") from None

    def decode(self, tokens: Sequence[int]) -> str:
        """Tokens → text, special tokens left out."""
        return str(self._raw.decode(list(tokens), skip_special_tokens=True))

    def spell(self, tokens: Sequence[int]) -> str:
        """Tokens → text, special tokens by their names."""
        return str(self._raw.decode(list(tokens), skip_special_tokens=False))

    def opens_reasoning(self, prompt: Sequence[int]) -> bool:
        """Whether a prompt ends with the mark that begins reasoning, as some templates do."""
        marks = self.tool_format.thinking
        if marks is None or not self.spell(prompt[-16:]).rstrip().endswith(marks[0]):
            return False
        mark = self.encode(marks[0], literal=False)
        return len(mark) > 1 or mark[0] in prompt[-16:]  # spelt in letters it is the user's

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """The special tokens, which are no text."""
        return frozenset(self._ids[text] for text in self.special_texts if text in self._ids)

    def finds_special(self, data: Any) -> bool:
        """Return whether a text in `data` spells a special token; True for data that is not JSON.

        JSON escapes each letter alone, so a text within a text is found in JSON as its own JSON.
        True too where a special token spells what JSON writes between texts, such as `true`.
        """
        try:
            written = json.dumps(data, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            return True
        return any(text in written for text in self._special_in_json)

    def special_in(self, text: str) -> frozenset[int]:
        """The special tokens that a text of the model's own, such as a mark, is written with."""
        return self.special_ids.intersection(self._raw.encode(text, add_special_tokens=False).ids)


def _beginnings(text: str, limit: int) -> Iterator[int]:
    """Where to cut a long text to see whether its beginning has more than so many tokens already.

    Between words where there are words, each time twice as far, and so for no more than twice the
    work of reading all of it.
    """
    end = max(4096, 2 * limit)
    while 2 * end <= len(text):
        space = text.rfind(" ", end - MARGIN, end)
        yield end if space < 0 else space
        end *= 2


def _bare_copy(backend: Tokenizer) -> Tokenizer:
    """A tokenizer with state of its own around the same model, which nobody changes.

    A copy of all as JSON takes seconds for a large vocabulary: it is for what added tokens differ
    in where they are added anew.
    """
    copy = Tokenizer(backend.model)
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        if (own := getattr(backend, part)) is not None:
            setattr(copy, part, own)
    copy.add_tokens([token for _, token in sorted(backend.get_added_tokens_decoder().items())])
    if _added(copy) != _added(backend):
        copy = Tokenizer.from_str(backend.to_str())
    copy.no_padding()
    copy.no_truncation()
    return copy


def _added(backend: Tokenizer) -> dict[int, str]:
    return {number: repr(token) for number, token in backend.get_added_tokens_decoder().items()}


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
