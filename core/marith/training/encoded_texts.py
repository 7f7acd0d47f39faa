"""The texts of the data as tokens of a base model, without special tokens around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from marith.errors import ModelError, RequestError
from marith.tables import fault
from marith.training.base import Base
from marith.training.labelled_texts import LabelledText, Split
from marith.training.prefixes import SpecialTokens, special_tokens_of


@dataclass(frozen=True, slots=True)
class LabelledTokens:
    """Texts as tokens, and the class of each text."""

    texts: tuple[tuple[int, ...], ...]
    classes: tuple[int, ...]

    def counts(self, names: Sequence[str]) -> dict[str, int]:
        """Return the number of texts of each class."""
        return {name: self.classes.count(i) for i, name in enumerate(names)}


@dataclass(frozen=True, slots=True)
class EncodedTexts:
    """The texts to learn from, and the held-out texts.

    `cut` is the number of texts, in both parts, that exceeded the limit.
    """

    special_tokens: SpecialTokens
    learned: LabelledTokens
    held_out: LabelledTokens
    cut: int


def encode(base: Base, labels: Sequence[str], split: Split, path: Path) -> EncodedTexts:
    """Return every text as tokens. Raises RequestError for a text without tokens, with its row.

    `labels` are the labels of the data, in order. The head of `base` maps them to classes.
    """
    places = dict(zip(labels, base.head.place, strict=True))
    special_tokens = special_tokens_of(base.vocabulary, split.learned[0].text)
    room = base.limit - special_tokens.count
    if room < 1:
        raise RequestError(
            f"a limit of {base.limit} tokens leaves no room between the tokenizer's "
            f"{special_tokens.count} special tokens"
        )
    parts, cut = [], 0
    for rows in (split.learned, split.held_out):
        texts = [_encode(base, row, path) for row in rows]
        classes = tuple(places[row.label] for row in rows)
        parts.append(LabelledTokens(tuple(text[:room] for text in texts), classes))
        cut += sum(len(text) > room for text in texts)
    learned, held_out = parts
    return EncodedTexts(special_tokens, learned, held_out, cut)


def _encode(base: Base, row: LabelledText, path: Path) -> tuple[int, ...]:
    tokens = tuple(base.vocabulary.encode(row.text))
    if not tokens:
        raise fault(path, row.where, f"the tokenizer returns no tokens for {row.text[:60]!r}")
    size = base.model.get_input_embeddings().num_embeddings
    if max(tokens) >= size:
        raise ModelError(
            f"the tokenizer has a token {max(tokens)!r}, but the model's embedding has only {size}"
        )
    return tokens
