"""What is measured, how often and on which model; wrong values are refused before any is built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

from marith.errors import ModelError, RequestError
from marith.scoring.checkpoints.locate import locate

SECTIONS = ("terms", "concurrency", "first-token", "floor")
FEWEST_WORDS = 32


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a Llama: its heads all have their own keys, its embedding is its head."""

    hidden: int
    layers: int
    heads: int
    intermediate: int
    vocabulary: int

    @classmethod
    def parse(cls, text: str) -> Shape:
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


DEFAULT = Shape(hidden=768, layers=12, heads=12, intermediate=2048, vocabulary=16000)


@dataclass(frozen=True, slots=True)
class Settings:
    """A run of the bench.

    Without `model` it is on a random Llama of `shape`; with both, on the model inflated to the
    shape. Each contestant makes `tokens` tokens a round. Raises ModelError or RequestError.
    """

    model: str | None = None
    shape: Shape | None = None
    tokens: int = 32
    rounds: int = 5
    sections: Sequence[str] = SECTIONS

    def __post_init__(self) -> None:
        require_whole("tokens", self.tokens, 2)  # the first is another measurement
        require_whole("rounds", self.rounds, 1)
        check_sections(self.sections, SECTIONS)
        if self.model is not None:
            locate(self.model)


def split_sections(texts: Sequence[str], known: tuple[str, ...] = SECTIONS) -> tuple[str, ...]:
    """`["terms,floor", "concurrency"]` → the names of three sections; of all, for none."""
    return tuple(name.strip() for text in texts for name in text.split(",")) or known


def check_sections(sections: Sequence[str], known: Sequence[str]) -> None:
    """Raise RequestError for a section that does not exist."""
    for section in sections:
        if section not in known:
            raise RequestError(f"a section is one of {', '.join(known)}, not {section!r}")


def require_whole(name: str, value: Any, least: int, most: int | None = None) -> None:
    """Raise RequestError for what is no whole number of this range."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        bound = "" if most is None else f" to {most}"
        raise RequestError(f"{name} is a whole number from {least}{bound}, not {value!r}")
