"""The tokens of a model in the order of their bytes, so that a beginning selects a slice."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.terms.over_bytes.byte_vocabulary import END
from marith.token_bytes import MARK, bytes_of_tokens


class SortedTokens:
    """The tokens of a model that are text, sorted by their bytes.

    Tokens with the same first bytes are neighbors, so the tokens below a node of the trie of bytes
    are a slice, from `low` to `high`. `ids` has the tokens in this order, and `end_ids` the tokens
    that end a text. Special tokens are left out, except for those in `marks`, whose text is their
    name. `lacking` are the bytes that are not a token by themselves, and so are in no text of the
    model, and the end if the model has none.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        size, ends = vocabulary.size, vocabulary.eos_ids
        marks = _marks(vocabulary)
        data = bytes_of_tokens(vocabulary.literal, size, size, sorted(ends))[:size]
        # An added token such as `<b>` has a mark there, but it is text unless it is special.
        for token in vocabulary.added_ids.intersection(range(size)):
            data[token] = data[token].removeprefix(MARK)
        left_out = {*ends, *vocabulary.special_ids, *vocabulary.holes}
        data = [
            marks.get(token, b"" if token in left_out else text) for token, text in enumerate(data)
        ]
        order = sorted((text, token) for token, text in enumerate(data) if text)
        self.data = data
        self.marks = frozenset(marks)
        self.texts = [text for text, _ in order]
        self.ids = np.array([token for _, token in order])
        self.end_ids = np.array(sorted(end for end in ends if end < size), dtype=np.int64)
        self._columns: dict[int, np.ndarray] = {}
        end = () if len(self.end_ids) else (END,)
        self.lacking = frozenset((*range(256), *end)).difference(
            text[0] for text in self.texts if len(text) == 1
        )

    def __len__(self) -> int:
        return len(self.texts)

    def column(self, depth: int, low: int, high: int) -> np.ndarray:
        """Return the byte at `depth` of each token of a slice, or -1 where a token has ended."""
        if depth not in self._columns:
            there = (text[depth] if len(text) > depth else -1 for text in self.texts)
            self._columns[depth] = np.fromiter(there, np.int16, len(self.texts))
        return self._columns[depth][low:high]

    def bytes_of(self, tokens: Sequence[int]) -> bytes:
        """Return the bytes of tokens."""
        return b"".join([self.data[token] for token in tokens])

    def goes_beyond(self, data: bytes) -> bool:
        """Return True if a token begins with `data` and is longer."""
        after = bisect_right(self.texts, data)
        return after < len(self.texts) and self.texts[after].startswith(data)


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
