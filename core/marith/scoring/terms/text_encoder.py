"""The tokens of texts that a classifier reads again whenever they have grown."""

from __future__ import annotations

import re
from collections.abc import Hashable
from functools import lru_cache

from marith.scoring.prompting.tokenizer import Vocabulary

STEP = 48  # characters between places where a text may be split
MARGIN = 8  # a text is not split in its last characters: the next ones may change them
KEPT = 128  # cached beginnings of texts
_SEAM = re.compile(r"[^\W\d_](?= [^\W\d_])")  # between two words


class Encoder:
    """Encodes texts as `vocabulary.encode(text, start=True)` does, and long texts faster.

    If a tokenizer splits texts into words before it looks for tokens, the tokens of a text are the
    tokens of its beginning and then those of its rest. The tokens of the beginning are cached. For
    each new beginning, the tokens of the two parts are compared once with those of the unsplit
    text. The rest is encoded together with at least one word of the beginning, because a tokenizer
    may mark the first word. Other tokenizers read the whole text each time. Cached tokens serve
    only texts of the same salt.
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
        if len(seams) < 2 or not self._beginning(text[: seams[-1]], seams[0], salt):
            return self._vocabulary.encode(text, start=True)
        rest = self._rest(text, seams[0], seams[-1], salt)
        return [*self._head, *self._encoded(text[: seams[-1]], salt), *rest, *self._foot]

    def _rest(self, text: str, back: int, seam: int, salt: Hashable) -> list[int]:
        """Return the tokens after `seam`. Encodes the text from `back` on, to keep its context."""
        return self._vocabulary.encode(text[back:])[len(self._encoded(text[back:seam], salt)) :]

    def _compared(self, beginning: str, back: int, salt: Hashable) -> bool:
        """Return True if a split beginning, with one word after it, has the tokens of the whole."""
        after = f"{beginning} a"
        rest = self._rest(after, back, len(beginning), salt)
        apart = [*self._encoded(beginning, salt), *rest]
        return apart == self._vocabulary.encode(after)


def _marks(vocabulary: Vocabulary) -> tuple[list[int], list[int]] | None:
    """Return the tokens that the tokenizer adds before and after a text; None if unknown."""
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
    if any(" " in token.content.strip() for token in added):
        return False
    pieces = backend.pre_tokenizer.pre_tokenize_str("no more of it")
    return {2, 7, 10} <= {end for _, (_, end) in pieces}


def _seams(text: str) -> list[int]:
    """Return places between words. Most continuations of a text have the same places."""
    last = (len(text) - MARGIN) // STEP * STEP
    return [seam.end() for seam in _SEAM.finditer(text, max(0, last - STEP), max(0, last))]
