"""The sizes of a model that is timed; those that no model has are refused before it is built."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields

from marith.errors import ModelError

FEWEST_WORDS = 32


@dataclass(frozen=True, slots=True)
class LlamaShape:
    """The sizes of a Llama: its heads all have their own keys, its embedding is its head."""

    hidden: int
    layers: int
    heads: int
    intermediate: int
    vocabulary: int

    @classmethod
    def parse(cls, text: str) -> LlamaShape:
        """`768,12,12,2048,16000` → a shape. Raises ModelError for one that no model has."""
        names = [field.name for field in fields(cls)]
        sizes = [part.strip() for part in text.split(",")]
        if len(sizes) != len(names) or not all(s.isdecimal() and int(s) for s in sizes):
            form = ",".join(names).upper()
            raise ModelError(f"a shape is {form}, whole numbers from 1, not {text!r}")
        shape = cls(*map(int, sizes))
        if shape.hidden % (2 * shape.heads):
            raise ModelError(
                f"hidden divides into heads of an even dimension, which {shape.hidden!r} "
                f"does not for {shape.heads} heads"
            )
        if shape.vocabulary < FEWEST_WORDS:
            raise ModelError(f"vocabulary is from {FEWEST_WORDS}, not {shape.vocabulary!r}")
        return shape

    def __str__(self) -> str:
        return ",".join(map(str, astuple(self)))


DEFAULT = LlamaShape(hidden=768, layers=12, heads=12, intermediate=2048, vocabulary=16000)
