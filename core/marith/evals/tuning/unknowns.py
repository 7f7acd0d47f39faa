"""The unknown numbers of a formula: names in the place of numbers that a search finds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from marith import RequestError, parse

_QUOTED = r'"[^"\\]*(?:\\.[^"\\]*)*"?|' r"'[^'\\]*(?:\\.[^'\\]*)*'?"
# This pattern matches the name of a method that is called.
_CALLED = re.compile(r"(\w+)\s*\(")
# This one matches a quoted text, or a name that is neither after a dot nor a keyword of a call.
_WORD = re.compile(rf"{_QUOTED}|(?<![\w.])(?P<name>[^\W\d]\w*)(?!\w|\s*=)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Range:
    """The name of an unknown number, and the closed interval in which it is sought."""

    name: str
    low: float
    high: float

    def __post_init__(self) -> None:
        if not -math.inf < self.low < self.high < math.inf:
            problem = f"the range of {self.name} is LOW:HIGH with LOW below HIGH"
            raise RequestError(f"{problem}, not {self.low}:{self.high}")

    @classmethod
    def read(cls, text: str) -> Range:
        """Return the range of a text such as `a=0:0.99`.

        Raises RequestError for an invalid text.
        """
        try:
            name, low, high = re.split("[=:]", text)
            ends = float(low), float(high)
        except ValueError:
            raise RequestError(f"a range is written NAME=LOW:HIGH, not {text!r}") from None
        return cls(name.strip(), *ends)

    @property
    def middle(self) -> float:
        """The number halfway between the ends."""
        return self.written((self.low + self.high) / 2)

    def written(self, value: float) -> float:
        """Return `value` rounded to four significant digits, and kept within the range."""
        return min(max(float(f"{value:.4g}"), self.low), self.high)


def filled(text: str, values: Mapping[str, float]) -> str:
    """Return a formula with `values` in the place of its unknowns, as marith prints it.

    Quoted texts do not change. Raises FormulaError for an invalid formula.
    """

    # The brackets keep the sign of a negative number apart from an operator before it.
    def number(word: re.Match[str]) -> str:
        return f"({values[word['name']]})" if word["name"] in values else word[0]

    return str(parse(_WORD.sub(number, text)))


def check_names(text: str, ranges: Sequence[Range], terms: Mapping[str, object]) -> None:
    """Raise RequestError for a range whose name is not an unknown of the formula."""
    names = [unknown.name for unknown in ranges]
    if not names:
        raise RequestError("a search needs a range for each unknown, such as a=0:1")
    for name in names:
        if names.count(name) > 1:
            raise RequestError(f"the range of {name!r} is given twice: leave one out")
        if name == "M" or name in terms or name in _CALLED.findall(text):
            kind = "a method" if name in _CALLED.findall(text) else "a term"
            raise RequestError(
                f"{name!r} is already {kind}; give the unknown another name, such as s"
            )
        if name not in (word["name"] for word in _WORD.finditer(text)):
            problem = f"the formula {text!r} has no unknown {name!r}"
            raise RequestError(f"{problem}: leave out its range, or write {name} in the formula")
