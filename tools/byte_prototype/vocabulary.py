"""The tokens of a model as bytes, and which sequences of them a tokenizer would write."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache

import numpy as np

from marith.decoding.matcher import Lexicon
from marith.scoring.prompting.tokenizer import Vocabulary

# The symbol after the 256 bytes is the end of a text.
END = 256
# A token's validity is checked with this number of tokens before it.
WINDOW = 2
# A pretokenizer cuts white space by the character that follows it. These are the kinds of it.
FOLLOWING = ("a", "1", ".")


class ByteVocabulary:
    """The tokens of a vocabulary that are text, in the order of their bytes.

    `ids` are the tokens' ids in this order. Tokens that begin with the same bytes are neighbours,
    so the tokens below a node of the byte trie are a slice.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        lexicon = Lexicon(vocabulary.literal, vocabulary.size, sorted(vocabulary.eos_ids))
        left_out = {*vocabulary.eos_ids, *vocabulary.special_ids, *vocabulary.holes}
        data = {
            token: lexicon.data_of(token)
            for token in range(vocabulary.size)
            if token not in left_out and not lexicon.is_special(token)
        }
        order = sorted((text, token) for token, text in data.items() if text)
        self.data = data
        self.ids = np.array([token for _, token in order])
        self.ends = np.array(sorted(end for end in vocabulary.eos_ids if end < vocabulary.size))
        self._texts = [text for text, _ in order]
        self._columns: dict[int, np.ndarray] = {}
        self._raw = vocabulary.literal
        self._fast = getattr(self._raw, "encode_batch_fast", self._raw.encode_batch)
        self.is_viable = lru_cache(1 << 16)(self._is_viable)

    def column(self, depth: int) -> np.ndarray:
        """Return the byte at `depth` of each token, or -1 for a token that is not so long."""
        if depth not in self._columns:
            bytes_there = (text[depth] if len(text) > depth else -1 for text in self._texts)
            self._columns[depth] = np.fromiter(bytes_there, np.int16, len(self._texts))
        return self._columns[depth]

    def is_canonical(self, tokens: Sequence[int]) -> bool:
        """Return True if the tokenizer writes the text of the tokens as these tokens."""
        try:
            text = self.bytes_of(tokens).decode()
        except UnicodeDecodeError:
            return False
        return self._encode(text) == [*tokens]

    def viable_among(self, before: tuple[int, ...], candidates: Sequence[int]) -> np.ndarray:
        """Return for each candidate whether `before` and the candidate begin a canonical text.

        Only the last tokens of `before` are read, if the tokenizer writes them alone as it writes
        them in the text.
        """
        window = next(self._windows(before))
        texts, where = [], []
        allowed = np.zeros(len(candidates), dtype=bool)
        for place, token in enumerate(candidates):
            whole, part = _decoded(self.bytes_of((*window, token)))
            # Whether an incomplete character is canonical is checked when it is complete.
            allowed[place] = part and whole is not None
            if whole is not None and not part:
                texts.append(whole)
                where.append(place)
        if texts:
            written_so = self._fast(texts, add_special_tokens=False)
            for place, written in zip(where, written_so, strict=True):
                tokens = (*window, candidates[place])
                allowed[place] = (*written.ids,) == tokens or (
                    self._ends_in_space(candidates[place]) and self.is_viable(tokens)
                )
        return allowed

    def bytes_of(self, tokens: Sequence[int]) -> bytes:
        """Return the bytes of a text of tokens."""
        return b"".join([self.data[token] for token in tokens])

    def _windows(self, before: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        size = WINDOW
        while size < len(before):
            window = before[-size:]
            if self.is_canonical(window):
                yield window
            size *= 2
        yield before

    def _is_viable(self, tokens: tuple[int, ...]) -> bool:
        """Return True if some canonical text begins with the tokens."""
        whole, part = _decoded(self.bytes_of(tokens))
        if whole is None:
            return False
        while part:
            # The tokens up to the last boundary between two characters are checked.
            tokens = tokens[:-1]
            whole, part = _decoded(self.bytes_of(tokens))
        if self._encode(whole) == [*tokens]:
            return True
        if not whole[-1:].isspace() or self._raw.pre_tokenizer is None:
            return False
        begun = [self._encode(whole + more)[: len(tokens)] for more in FOLLOWING]
        return [*tokens] in begun

    def _encode(self, text: str) -> list[int]:
        return list(self._raw.encode(text, add_special_tokens=False).ids)

    def _ends_in_space(self, token: int) -> bool:
        return token in self._spaces

    @cached_property
    def _spaces(self) -> frozenset[int]:
        decoded = {token: text.decode(errors="replace") for token, text in self.data.items()}
        return frozenset(token for token, text in decoded.items() if text[-1:].isspace())


def _decoded(data: bytes) -> tuple[str | None, bool]:
    """Return the whole characters of bytes, and whether an incomplete character follows them.

    The characters are None if no text begins with the bytes.
    """
    decoder = getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(data)
    except UnicodeDecodeError:
        return None, False
    return text, bool(decoder.getstate()[0])
