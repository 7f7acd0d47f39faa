"""The unknown numbers of a formula: names that stand where a factor is sought."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from marith.errors import FormulaError, RequestError
from marith.formula.meaning.binding import BARE, parse
from marith.formula.text.calls import CALLS
from marith.formula.tree.bounds import MAX_LENGTH
from marith.formula.tree.nodes import Name

DIGITS = 4  # that a factor is written with


@dataclass(frozen=True, slots=True)
class Range:
    """An unknown number and where it is sought, both ends included."""

    name: str
    low: float
    high: float

    def __post_init__(self) -> None:
        Name(self.name)  # refuses what is no plain word
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise RequestError(
                f"{self.name} is sought from low to high, not {self.low}:{self.high}"
            )

    @classmethod
    def read(cls, text: str) -> Range:
        """`a=0:0.99`. Raises RequestError or FormulaError for what is none."""
        name, _, ends = text.partition("=")
        low, _, high = ends.partition(":")
        try:
            numbers = float(low), float(high)
        except ValueError:
            raise RequestError(f"a range is NAME=LOW:HIGH, not {text!r}") from None
        return cls(name.strip(), *numbers)

    @property
    def middle(self) -> float:
        """Half-way."""
        return self.written((self.low + self.high) / 2)

    def written(self, value: float) -> float:
        """A value as it is written into a formula, within the range."""
        return min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)


def filled(text: str, values: Mapping[str, float]) -> str:
    """A formula with numbers in place of its unknowns, written as marith writes formulas.

    The text is read as Python's arithmetic, and names are replaced in its tree: what stands inside
    a quoted text stays. Raises FormulaError for what is no formula.
    """
    return str(parse(_replaced(text, values)))


def check_names(text: str, ranges: Sequence[Range], terms: Mapping[str, object]) -> None:
    """Raise RequestError for a range that is no unknown of the formula, or a term already."""
    names = [unknown.name for unknown in ranges]
    if not names:
        raise RequestError("without a range there is nothing to seek")
    names_there = {node.id for node in ast.walk(_tree(text)) if isinstance(node, ast.Name)}
    for name in names:
        if names.count(name) > 1:
            raise RequestError(f"the range of {name!r} is given twice")
        if name == BARE or name in terms or name in CALLS:
            raise RequestError(f"{name!r} means something else in a formula; name the number anew")
        if name not in names_there:
            raise RequestError(f"the formula {text!r} has no {name!r}")


def _tree(text: str) -> ast.Expression:
    """The syntax of a formula's text, as far as Python's own parser reads it."""
    try:
        return ast.parse(text.strip() if len(text) <= MAX_LENGTH else "", mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        parse(text)  # which says what is wrong with it
        raise FormulaError(f"not a formula: {text[:80]!r}") from None


def _replaced(text: str, values: Mapping[str, float]) -> str:
    class Filler(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            if node.id not in values:
                return node
            value = values[node.id]
            number = ast.Constant(abs(value))
            return number if value >= 0 else ast.UnaryOp(ast.USub(), number)

    try:
        return ast.unparse(Filler().visit(_tree(text)))
    except RecursionError:
        raise FormulaError("not a formula: nested too deeply") from None
