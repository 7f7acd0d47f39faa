"""Factors, which multiply formulas: numbers, or functions of the context."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

from marith.errors import FormulaError, shown
from marith.formula.tree.node import Node

RELATIONS = (">", ">=", "<", "<=")
# Scores are float32, which overflows at 3e38.
LARGEST_FACTOR = 1e30


class Varying(Node):
    """A factor that depends on the context.

    Python's operators only build nodes, and fold the numbers of a product. A subclass whose
    `tokenwise` is True has a value for each token of the vocabulary; any other factor has one value
    at a position.
    """

    __slots__ = ()
    tokenwise = False

    def __add__(self, other: Any) -> Any:
        return _arithmetic("+", self, other)

    def __radd__(self, other: Any) -> Any:
        return _arithmetic("+", other, self)

    def __sub__(self, other: Any) -> Any:
        return _arithmetic("-", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _arithmetic("-", other, self)

    def __mul__(self, other: Any) -> Any:
        if is_number(other):
            return times(number(other), self)
        return times(self, other) if isinstance(other, Varying) else NotImplemented

    def __rmul__(self, other: Any) -> Any:
        return times(number(other), self) if is_number(other) else NotImplemented

    def __truediv__(self, other: Any) -> Any:
        if is_number(other):
            if not number(other):
                raise FormulaError(f"a factor cannot be divided by zero: {other!r}")
            return times(number(1.0 / number(other)), self)
        return _arithmetic("/", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _arithmetic("/", other, self)

    def __neg__(self) -> Any:
        return times(-1.0, self)

    def __pos__(self) -> Any:
        return self

    def __gt__(self, other: Any) -> Comparison:
        return _compared(self, ">", other)

    def __ge__(self, other: Any) -> Comparison:
        return _compared(self, ">=", other)

    def __lt__(self, other: Any) -> Comparison:
        return _compared(self, "<", other)

    def __le__(self, other: Any) -> Comparison:
        return _compared(self, "<=", other)


Factor: TypeAlias = "float | Varying"


@dataclass(frozen=True, slots=True, eq=False)
class Arithmetic(Varying):
    """Two factors joined by +, -, * or /. At least one of the two depends on the context."""

    operator: str
    left: Factor
    right: Factor


@dataclass(frozen=True, slots=True, eq=False)
class Extreme(Varying):
    """The largest or the smallest of several factors, element by element."""

    kind: str
    of: tuple[Factor, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Sigmoid(Varying):
    """The factor 1 / (1 + e^−x), which maps any factor x to a number between 0 and 1."""

    of: Varying


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(Node):
    """A comparison of two factors: the condition of `where`."""

    left: Factor
    relation: str
    right: Factor

    def _validate(self) -> None:
        if self.relation not in RELATIONS:
            raise FormulaError(
                f"a comparison is one of {' '.join(RELATIONS)}, not {self.relation!r}"
            )
        for name in ("left", "right"):
            if isinstance(value := getattr(self, name), float):
                object.__setattr__(self, name, number(value))

    def __bool__(self) -> bool:
        raise FormulaError(
            "a comparison of factors has a value only while a text is generated; use where"
        )


def maximum(*factors: Factor) -> Varying:
    """Return the largest of several factors."""
    return Extreme("maximum", _several("maximum", factors))


def minimum(*factors: Factor) -> Varying:
    """Return the smallest of several factors."""
    return Extreme("minimum", _several("minimum", factors))


def sigmoid(value: Factor) -> Varying:
    """Return 1 / (1 + e^−x) for a factor x that depends on the context."""
    if not isinstance(value, Varying):
        raise FormulaError(f"sigmoid takes a factor such as entropy(M), not {shown(value)}")
    return Sigmoid(value)


def times(left: Factor, right: Factor) -> Any:
    """Return the product of two factors, with its numbers folded into one number in front."""
    if isinstance(left, float) and isinstance(right, float):
        return number(left * right)
    if isinstance(right, float):
        left, right = right, left
    match left, right:
        case float(), Arithmetic("*", float() as value, rest):
            return times(number(left * value), rest)
        case Arithmetic("*", float() as value, rest), _:
            return times(value, times(rest, right))
        case _, Arithmetic("*", float() as value, rest):
            return times(value, times(left, rest))
    return right if left == 1.0 else Arithmetic("*", left, right)


def plain(value: Any) -> Any:
    """Return a scalar of numpy or torch as a number of Python, and any other value unchanged."""
    return value.item() if getattr(value, "shape", None) == () else value


def is_number(value: object) -> bool:
    """Return whether a value is an int or a float, of Python, numpy or torch; a bool is neither."""
    value = plain(value)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def number(value: Any, subject: str = "a factor") -> float:
    """Return a number as a float, with −0 as 0. Raises FormulaError for NaN and beyond ±1e30.

    The message calls the value `subject`.
    """
    try:
        result = float(value) + 0.0
    except OverflowError:
        result = math.inf
    if not abs(result) <= LARGEST_FACTOR:
        problem = f"{subject} is a finite number of at most 1e30 in size"
        raise FormulaError(f"{problem}, not {result!r}")
    return result


def factor(value: Any, subject: str = "a factor") -> Factor:
    """Return a value as a factor: a number, or a function of the context.

    Raises FormulaError for another value; the message calls the value `subject`.
    """
    if isinstance(value, Varying):
        return value
    if not is_number(value):
        problem = f"{subject} is a number or a function of the context"
        raise FormulaError(f"{problem}, not {shown(value)}")
    return number(value)


def _arithmetic(operator: str, left: Any, right: Any) -> Any:
    for side in (left, right):
        if not (isinstance(side, Varying) or is_number(side)):
            # Python then tries the operator of the other operand, such as a formula.
            return NotImplemented
    return Arithmetic(operator, factor(left), factor(right))


def _compared(left: Varying, relation: str, right: Any) -> Comparison:
    return Comparison(left, relation, factor(right, "what a factor is compared with"))


def _several(name: str, values: tuple[Any, ...]) -> tuple[Factor, ...]:
    if len(values) < 2:
        raise FormulaError(f"{name} takes at least 2 factors, not {len(values)}")
    return tuple(factor(value, f"each part of {name}") for value in values)
