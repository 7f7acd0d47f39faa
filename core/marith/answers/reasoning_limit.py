"""The limit of reasoning: after a number of tokens, the mark that ends reasoning is written."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from marith.decoding.matcher import Lexicon
from marith.errors import RequestError
from marith.scoring.prompting.text_parts import TextParts
from marith.scoring.prompting.tokenizer import Vocabulary

# This number of tokens may follow the limit, to complete a character.
TO_COMPLETE = 3


class ClosingMark:
    """The tokens with which a text writes the mark that ends reasoning.

    A mark that is one special or added token is always written by it, as a grammar demands. Another
    mark is written by the longest tokens, from where the text has begun it.
    """

    def __init__(self, mark: str, lexicon: Lexicon, vocabulary: Vocabulary) -> None:
        self.mark = mark
        token = vocabulary.raw.token_to_id(mark)
        self._whole = token if token is not None and lexicon.is_special(token) else None
        self._parts: dict[bytes, int] = {}
        if self._whole is None:
            for token in range(lexicon.size):
                data = lexicon.data_of(token)
                # The first tokens of some vocabularies are single bytes, for characters without a
                # token of their own.
                if data and data in mark.encode():
                    self._parts[data] = token

    def next(self, held: str) -> int | None:
        """Return the token that goes on with the mark, after the last characters of a text.

        Return None if the vocabulary cannot spell the mark.
        """
        if self._whole is not None:
            return self._whole
        lengths = range(min(len(held), len(self.mark) - 1), 0, -1)
        begun = next((n for n in lengths if held.endswith(self.mark[:n])), 0)
        rest = self.mark[begun:].encode()
        longest = (rest[:n] for n in range(len(rest), 0, -1))
        return next((self._parts[part] for part in longest if part in self._parts), None)


class ReasoningLimit:
    """Lets only the closing mark follow after `most` tokens of reasoning.

    The row of a position becomes that of one certain token, whatever the formula gives it: a mask
    could not allow a mark to which the formula gives no probability. The token depends only on the
    text before the position. So drafts and texts that are rolled back keep to it.
    """

    def __init__(self, most: int, mark: ClosingMark, vocabulary: Vocabulary, opened: bool) -> None:
        self._most, self._mark = most, mark
        self._parts = TextParts(vocabulary, opened)

    def apply(self, rows: Tensor, text: Sequence[int], places: Sequence[int]) -> Tensor:
        """Return the rows [positions, vocab], changed where the limit is reached."""
        found = self._parts.places(text)
        if not any(found[at].part == "reasoning" for at in places):
            return rows
        first = next(at for at, place in enumerate(found) if place.part == "reasoning")
        changed = rows
        for row, at in enumerate(places):
            place, made = found[at], at - first
            if place.part != "reasoning" or made < self._most:
                continue
            if not place.whole and made < self._most + TO_COMPLETE:
                continue
            token = self._mark.next(place.held)
            if token is None:
                raise RequestError(
                    f"the vocabulary cannot spell {self._mark.mark!r}, which ends reasoning; leave "
                    "max_reasoning_tokens out"
                )
            changed = changed.clone() if changed is rows else changed
            changed[row] = -math.inf
            changed[row, token] = 0.0
        return changed
