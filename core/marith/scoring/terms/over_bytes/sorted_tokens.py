"""The tokens of a model in the order of their bytes, so that a beginning selects a slice."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.terms.over_bytes.byte_vocabulary import END
from marith.token_bytes import bytes_of_tokens


class SortedTokens:
    """The tokens of a model that are text, sorted by their bytes.

    Tokens with the same first bytes are neighbors, so the tokens below a node of the trie of bytes
    are a slice, from `low` to `high`, of `sorted_bytes`. `ids` has the tokens in this order, and
    `end_ids` the tokens that end a text. `bytes_of_token` has the bytes of each token by its id. A
    special token has none, except for the `marks` around reasoning and calls, whose bytes are their
    names. `lacking` has the bytes that no token has, and the end if the model has no token for it.
    `longest` is the number of bytes of the longest token.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        size, ends = vocabulary.size, vocabulary.eos_ids
        marks = _marks(vocabulary)
        texts, _ = bytes_of_tokens(vocabulary.literal, size, sorted(ends))
        left_out = {*ends, *vocabulary.special_ids, *vocabulary.holes}
        texts = [
            marks.get(token, b"" if token in left_out else text) for token, text in enumerate(texts)
        ]
        order = sorted((text, token) for token, text in enumerate(texts) if text)
        self.bytes_of_token = texts
        self.marks = frozenset(marks)
        self.sorted_bytes = [text for text, _ in order]
        self.ids = np.array([token for _, token in order])
        self.end_ids = np.array(sorted(end for end in ends if end < size), dtype=np.int64)
        end = () if len(self.end_ids) else (END,)
        self.lacking = frozenset((*range(256), *end)).difference(b"".join(texts))
        self.longest = max(map(len, texts))
        self._columns: dict[int, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.sorted_bytes)

    def column(self, depth: int, low: int, high: int) -> np.ndarray:
        """Return the byte at `depth` of each token of a slice, or -1 where a token has ended."""
        if depth not in self._columns:
            next_bytes = (text[depth] if len(text) > depth else -1 for text in self.sorted_bytes)
            self._columns[depth] = np.fromiter(next_bytes, np.int16, len(self))
        return self._columns[depth][low:high]

    def bytes_of(self, tokens: Sequence[int]) -> bytes:
        """Return the bytes of tokens."""
        return b"".join([self.bytes_of_token[token] for token in tokens])

    def goes_beyond(self, data: bytes) -> bool:
        """Return True if a token begins with `data` and is longer."""
        after = bisect_right(self.sorted_bytes, data)
        return after < len(self) and self.sorted_bytes[after].startswith(data)


def _marks(vocabulary: Vocabulary) -> dict[int, bytes]:
    """Return the special tokens that mark reasoning or calls, with their names as bytes."""
    tool_format = vocabulary.tool_format
    marks = "".join(tool_format.thinking or ()) + tool_format.calls.marks
    special = vocabulary.special_in(marks)
    return {
        token: text.encode()
        for token, text in vocabulary.texts.items()
        # The marks may also have characters that the tokenizer writes as an unknown token.
        if token in special and text in marks
    }
