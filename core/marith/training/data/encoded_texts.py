"""Both sides of the data as a base model reads them: tokens, without the marks around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from marith.errors import ModelError, RequestError
from marith.tables import fault
from marith.training.base import Base
from marith.training.data.labelled_texts import LabelledText
from marith.training.data.prefixes import Marks, marks_of
from marith.training.data.splits import Split


@dataclass(frozen=True, slots=True)
class Side:
    """Texts as tokens, and the class of each."""

    texts: tuple[tuple[int, ...], ...]
    classes: tuple[int, ...]

    def counts(self, names: Sequence[str]) -> dict[str, int]:
        """How many texts each class has."""
        return {name: self.classes.count(i) for i, name in enumerate(names)}


@dataclass(frozen=True, slots=True)
class EncodedTexts:
    """What is learned from and what is held out; `cut` texts of both had more than the limit."""

    marks: Marks
    learned: Side
    held_out: Side
    cut: int


def encode(base: Base, labels: Sequence[str], split: Split, path: Path) -> EncodedTexts:
    """Every text as tokens. Raises RequestError with the row of one that has none.

    `labels` are those of the data, in order; the head of `base` says which classes they are.
    """
    places = dict(zip(labels, base.head.place, strict=True))
    marks = marks_of(base.vocabulary, split.learned[0].text)
    room = base.limit - marks.count
    if room < 1:
        raise RequestError(
            f"a limit of {base.limit} tokens leaves no room between the tokenizer's {marks.count} "
            "marks"
        )
    sides, cut = [], 0
    for rows in (split.learned, split.held_out):
        texts = [_encode(base, row, path) for row in rows]
        classes = tuple(places[row.label] for row in rows)
        sides.append(Side(tuple(text[:room] for text in texts), classes))
        cut += sum(len(text) > room for text in texts)
    learned, held_out = sides
    return EncodedTexts(marks, learned, held_out, cut)


def _encode(base: Base, row: LabelledText, path: Path) -> tuple[int, ...]:
    tokens = tuple(base.vocabulary.encode(row.text))
    if not tokens:
        raise fault(path, row.where, f"the tokenizer finds nothing in {row.text[:60]!r}")
    if max(tokens) >= base.model.get_input_embeddings().num_embeddings:
        raise ModelError(f"the tokenizer knows token {max(tokens)!r}, which the model does not")
    return tokens
