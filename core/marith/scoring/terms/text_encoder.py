"""The tokens of texts that a classifier reads again whenever they have grown."""

from __future__ import annotations

import re
from collections.abc import Hashable
from functools import lru_cache

from marith.scoring.prompting.tokenizer import Vocabulary

# The place where a growing text is split moves on in steps of this number of characters.
STEP = 48
# A text is not split in its last characters, because later characters may change their tokens.
MARGIN = 8
# This number of beginnings of texts is cached.
KEPT = 128
# A seam is the place between two words.
_SEAM = re.compile(r"[^\W\d_](?= [^\W\d_])")


class Encoder:
    """An encoder that returns what `vocabulary.encode(text, start=True)` returns, but faster.

    If a tokenizer splits texts into words before it looks for tokens, the tokens of a text are the
    tokens of its beginning, followed by the tokens of its rest. The tokens of the beginning are
    cached. For each new beginning, the tokens of the two parts are compared once with the tokens of
    the unsplit text. The rest is encoded together with at least one word of the beginning, because
    a tokenizer may mark the first word. Other tokenizers read the whole text each time. Cached
    tokens are used only for texts of the same salt.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._head, self._foot = _marks(vocabulary) or ([], [])
        self.splits = _marks(vocabulary) is not None and _splits_words(vocabulary)
        self._beginning = lru_cache(maxsize=KEPT)(self._compared)
        self._encoded = lru_cache(maxsize=KEPT)(lambda text, _: vocabulary.encode(text))

    def __call__(self, text: str, salt: Hashable = None) -> list[int]:
        """Return the text's tokens. Raises RequestError if the text is not Unicode."""
        seams = _seams(text) if self.splits else ()
        # The words between the first and the last seam are encoded with the rest, as its context.
        if len(seams) < 2 or not self._beginning(text[: seams[-1]], seams[0], salt):
            return self._vocabulary.encode(text, start=True)
        rest = self._rest(text, seams[0], seams[-1], salt)
        return [*self._head, *self._encoded(text[: seams[-1]], salt), *rest, *self._foot]

    def _rest(self, text: str, back: int, seam: int, salt: Hashable) -> list[int]:
        """Return the tokens after `seam`. The text is encoded from `back` on, for its context."""
        return self._vocabulary.encode(text[back:])[len(self._encoded(text[back:seam], salt)) :]

    def _compared(self, beginning: str, back: int, salt: Hashable) -> bool:
        """Return True if a beginning and one more word have the same tokens, split or not."""
        after = f"{beginning} a"
        rest = self._rest(after, back, len(beginning), salt)
        apart = [*self._encoded(beginning, salt), *rest]
        return apart == self._vocabulary.encode(after)


def _marks(vocabulary: Vocabulary) -> tuple[list[int], list[int]] | None:
    """Return the tokens that the tokenizer adds before and after a text; None if it is unclear."""
    bare, marked = vocabulary.encode("a"), vocabulary.encode("a", start=True)
    for at in range(len(marked)):
        if bare and marked[at : at + len(bare)] == bare:
            return marked[:at], marked[at + len(bare) :]
    return None


def _splits_words(vocabulary: Vocabulary) -> bool:
    """Return True if texts are split into words first, so that no token spans several words."""
    backend = vocabulary.tokenizer.backend_tokenizer
    if backend.pre_tokenizer is None:
        return False
    added = backend.get_added_tokens_decoder().values()
    # An added token with a space in it may span two words.
    if any(" " in token.content.strip() for token in added):
        return False
    # A tokenizer that splits texts into words ends a piece at the end of each of these words.
    pieces = backend.pre_tokenizer.pre_tokenize_str("no more of it")
    return {2, 7, 10} <= {end for _, (_, end) in pieces}


def _seams(text: str) -> list[int]:
    """Return the places between words at which a text may be split.

    They change only every `STEP` characters while a text grows, so that a cached beginning fits.
    """
    last = (len(text) - MARGIN) // STEP * STEP
    return [seam.end() for seam in _SEAM.finditer(text, max(0, last - STEP), max(0, last))]
