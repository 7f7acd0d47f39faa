"""The unknown numbers of a formula: names that stand where a factor is sought."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from marith import RequestError, parse

_QUOTED = r'"[^"\\]*(?:\\.[^"\\]*)*"?|' r"'[^'\\]*(?:\\.[^'\\]*)*'?"
_CALLED = re.compile(r"(\w+)\s*\(")  # the name of a method
# A quoted text, or the name of a value: not that of a method or of an argument.
_WORD = re.compile(rf"{_QUOTED}|(?<![\w.])(?P<name>[^\W\d]\w*)(?!\w|\s*=)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Range:
    """An unknown number and where it is sought, both ends included."""

    name: str
    low: float
    high: float

    def __post_init__(self) -> None:
        if not -math.inf < self.low < self.high < math.inf:
            raise RequestError(f"{self.name} goes from low to high, not {self.low}:{self.high}")

    @classmethod
    def read(cls, text: str) -> Range:
        """Return the range that `a=0:0.99` means. Raises RequestError."""
        try:
            name, low, high = re.split("[=:]", text)
            ends = float(low), float(high)
        except ValueError:
            raise RequestError(f"a range is NAME=LOW:HIGH, not {text!r}") from None
        return cls(name.strip(), *ends)

    @property
    def middle(self) -> float:
        """Half-way."""
        return self.written((self.low + self.high) / 2)

    def written(self, value: float) -> float:
        """Return a value within the range, with the four digits that are written."""
        return min(max(float(f"{value:.4g}"), self.low), self.high)


def filled(text: str, values: Mapping[str, float]) -> str:
    """Return a formula with numbers in place of its unknowns, written as marith writes formulas.

    Quoted texts stay as they are. Raises FormulaError for an invalid formula.
    """

    def number(word: re.Match[str]) -> str:
        return f"({values[word['name']]})" if word["name"] in values else word[0]

    return str(parse(_WORD.sub(number, text)))


def check_names(text: str, ranges: Sequence[Range], terms: Mapping[str, object]) -> None:
    """Raise RequestError for a range that is no unknown of the formula, or a term already."""
    names = [unknown.name for unknown in ranges]
    if not names:
        raise RequestError("without a range there is nothing to seek")
    for name in names:
        if names.count(name) > 1:
            raise RequestError(f"the range of {name!r} is given twice")
        if name == "M" or name in terms or name in _CALLED.findall(text):
            raise RequestError(f"{name!r} means something else in a formula; name the number anew")
        if name not in (word["name"] for word in _WORD.finditer(text)):
            raise RequestError(f"the formula {text!r} has no {name!r}")
