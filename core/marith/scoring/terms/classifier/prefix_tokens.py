"""Long texts that begin alike, encoded without reading the beginning again."""

from __future__ import annotations

import re
from functools import lru_cache

from marith.scoring.prompting.tokenizer import Vocabulary

STEP = 48  # characters between places where a text may be taken apart
MARGIN = 8  # so many characters at the end, which the next may change, are never a place
KEPT = 128  # beginnings remembered
_SEAM = re.compile(r"[^\W\d_](?= [^\W\d_])")  # between two words


class Encoder:
    """Text → tokens as `vocabulary.encode(text, start=True)` gives them, sooner for long texts.

    A tokenizer that takes texts apart into words before it looks for tokens gives a text the
    tokens of its beginning and those of its rest. The beginning is remembered, and compared with
    the whole when it is new; the rest is encoded behind a word or more of the beginning, since a
    tokenizer may mark the first word. Other tokenizers read the whole text each time. What is
    remembered serves texts of the same salt alone.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._head, self._foot = _marks(vocabulary) or ([], [])
        self.splits = _marks(vocabulary) is not None and _splits_words(vocabulary)
        self._beginning = lru_cache(maxsize=KEPT)(self._compared)
        self._encoded = lru_cache(maxsize=KEPT)(lambda text, _: vocabulary.encode(text))

    def __call__(self, text: str, salt: str | None = None) -> list[int]:
        """The text's tokens. Raises RequestError where it is not Unicode."""
        seams = _seams(text) if self.splits else ()
        if len(seams) < 2 or not self._beginning(text[: seams[-1]], seams[0], salt):
            return self._vocabulary.encode(text, start=True)
        rest = self._rest(text, seams[0], seams[-1], salt)
        return [*self._head, *self._encoded(text[: seams[-1]], salt), *rest, *self._foot]

    def _rest(self, text: str, back: int, seam: int, salt: str | None) -> list[int]:
        """The tokens behind the seam; what lies between `back` and it is read and left out."""
        return self._vocabulary.encode(text[back:])[len(self._encoded(text[back:seam], salt)) :]

    def _compared(self, beginning: str, back: int, salt: str | None) -> bool:
        """Whether a beginning, itself taken apart, and with a word behind it, is as the whole."""
        after = f"{beginning} a"
        rest = self._rest(after, back, len(beginning), salt)
        apart = [*self._encoded(beginning, salt), *rest]
        return apart == self._vocabulary.encode(after)


def _marks(vocabulary: Vocabulary) -> tuple[list[int], list[int]] | None:
    """What the tokenizer puts before and behind a text, if that can be found out."""
    bare, marked = vocabulary.encode("a"), vocabulary.encode("a", start=True)
    for at in range(len(marked)):
        if bare and marked[at : at + len(bare)] == bare:
            return marked[:at], marked[at + len(bare) :]
    return None


def _splits_words(vocabulary: Vocabulary) -> bool:
    """Whether texts are split into words first, so that no token spans several words."""
    backend = vocabulary.tokenizer.backend_tokenizer
    if backend.pre_tokenizer is None:
        return False
    added = backend.get_added_tokens_decoder().values()
    if any(" " in token.content.strip() for token in added):
        return False
    pieces = backend.pre_tokenizer.pre_tokenize_str("no more of it")
    return {2, 7, 10} <= {end for _, (_, end) in pieces}


def _seams(text: str) -> list[int]:
    """Places between words, the same for a text and most that go on from it."""
    last = (len(text) - MARGIN) // STEP * STEP
    return [seam.end() for seam in _SEAM.finditer(text, max(0, last - STEP), max(0, last))]
