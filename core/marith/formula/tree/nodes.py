"""The tree of a formula, and the operators that build it."""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any
from unicodedata import normalize

from marith.errors import FormulaError, TooLarge, shown
from marith.formula.tree.factors import Factor, Varying, is_number, number, plain, times
from marith.formula.tree.node import MAX_ROW, Node, descend, parts

MOST_TOKENS = 10**9
_SHORT = 60  # characters of two formulas that a message repeats


class Formula(Node):
    """A tree that defines the distribution to sample from. Immutable, hashable, without tensors.

    `+` and `-` combine the log-probabilities of two formulas; `*` and `/` scale them by a number or
    a factor. The operators only build the tree: they flatten nested sums and multiply numbers.
    """

    __slots__ = ()

    def __add__(self, other: object) -> Formula:
        return added(self, other) if isinstance(other, Formula) else _refuse("+", self, other)

    def __radd__(self, other: object) -> Formula:
        return _refuse("+", other, self)

    def __sub__(self, other: object) -> Formula:
        return added(self, -other) if isinstance(other, Formula) else _refuse("-", self, other)

    def __rsub__(self, other: object) -> Formula:
        return _refuse("-", other, self)

    def __neg__(self) -> Formula:
        return _scaled(-1.0, self)

    def __pos__(self) -> Formula:
        return self

    def __mul__(self, factor: object) -> Formula:
        if isinstance(factor, Varying):
            return _scaled(factor, self)
        return _scaled(number(factor), self) if is_number(factor) else _refuse("*", self, factor)

    def __rmul__(self, factor: object) -> Formula:
        return self * factor

    def __truediv__(self, factor: object) -> Formula:
        if isinstance(factor, Varying):
            return _scaled(1.0 / factor, self)
        if not is_number(factor):
            return _refuse("/", self, factor)
        if not number(factor):
            raise FormulaError(f"a formula cannot be divided by zero: {self} / {factor!r}")
        return _scaled(number(1.0 / number(factor)), self)

    def temperature(self, temperature: float) -> Formula:
        """Return this formula at a temperature T: each probability P becomes P^(1/T), normalised.

        The distribution is flatter for a T above 1, and sharper for a T below 1.
        """
        if not is_number(temperature) or not 1e-6 <= temperature <= 1e6:
            raise FormulaError(
                f"temperature takes a number from 1e-6 to 1e6, not {shown(temperature)}"
            )
        return Tempered(self, float(temperature))

    def top_k(self, k: int) -> Formula:
        """Return this formula restricted to its `k` likeliest tokens."""
        k = plain(k)
        if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MOST_TOKENS:
            raise FormulaError(
                f"top_k takes a whole number from 1 to {MOST_TOKENS}, not {shown(k)}"
            )
        return Cut(self, "top_k", float(k))

    def top_p(self, p: float) -> Formula:
        """Return this formula restricted to its nucleus.

        The nucleus is the fewest likeliest tokens whose probabilities add up to at least `p`.
        """
        return Cut(self, "top_p", _fraction("top_p", p))

    def min_p(self, alpha: float) -> Formula:
        """Return this formula restricted to its plausible tokens.

        A plausible token has at least `alpha` times the probability of the likeliest token. This is
        the rule of `Sampling.min_p`, and the plausibility constraint of contrastive decoding (Li et
        al., 2023, equation 2).
        """
        return Cut(self, "min_p", _fraction("min_p", alpha))


@dataclass(frozen=True, slots=True, eq=False)
class Name(Formula):
    """A reference to a term by its name. `M` is the bare model unless the terms define it."""

    name: str

    def _validate(self) -> None:
        plain = isinstance(self.name, str) and self.name.isidentifier()
        if not plain or keyword.iskeyword(self.name) or normalize("NFKC", self.name) != self.name:
            raise FormulaError(f"a term's name is a plain word, not {self.name!r}")


@dataclass(frozen=True, slots=True, eq=False)
class Sum(Formula):
    """The sum of several formulas: their scores are added, and so are their weights."""

    members: tuple[Formula, ...]

    def _validate(self) -> None:
        if len(self.members) > MAX_ROW:
            raise TooLarge(f"a sum has {len(self.members)} members; {MAX_ROW} are allowed")


@dataclass(frozen=True, slots=True, eq=False)
class Scaled(Formula):
    """A formula times a factor, which multiplies both its score and its weight."""

    factor: Factor
    of: Formula


# The α of contrastive decoding (Li et al., 2023). A plausible token has at least this share of the
# likeliest token's probability.
PLAUSIBLE = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Cut(Formula):
    """The formula `of`, restricted to its top-k, top-p or min-p tokens."""

    of: Formula
    kind: str
    threshold: float


@dataclass(frozen=True, slots=True, eq=False)
class Tempered(Formula):
    """The formula `of` at the temperature `at`: its distribution P becomes P^(1/at), normalised."""

    of: Formula
    at: float


def added(first: Formula, *others: Formula) -> Formula:
    """Return the sum of several formulas as one flat node."""
    if not others:
        return first
    members = (first, *others)
    flat = (m.members if isinstance(m, Sum) else (m,) for m in members)
    return Sum(tuple(chain.from_iterable(flat)))


def children(formula: Formula) -> tuple[Formula, ...]:
    """Return the direct parts of a formula that are formulas, from left to right.

    Formulas within a factor are not included.
    """
    return tuple(part for part in parts(formula) if isinstance(part, Formula))


def names_of(formula: Formula) -> Iterator[Name]:
    """Return an iterator over the names in a formula, including names in factors and guides."""
    return (node for node in descend(formula, lambda node: node.inner) if isinstance(node, Name))


def _scaled(factor: Factor, formula: Formula) -> Formula:
    if isinstance(formula, Scaled):
        factor, formula = times(factor, formula.factor), formula.of
    # −0.0 becomes 0.0, so that equal formulas have one text.
    if isinstance(factor, float):
        factor += 0.0
    return formula if factor == 1.0 else Scaled(factor, formula)


def as_members(name: str, members: tuple[Any, ...], least: int = 2) -> tuple[Formula, ...]:
    """Return the formulas that a call takes.

    Raises FormulaError for an argument that is not a formula, and for fewer than `least` arguments.
    """
    for member in members:
        if not isinstance(member, Formula):
            raise FormulaError(f"{name} takes formulas, not {shown(member)}")
    if len(members) < least:
        raise FormulaError(f"{name} takes at least {least} formulas, not {len(members)}")
    return members


def _fraction(name: str, value: float) -> float:
    if not is_number(value) or not 0.0 < value <= 1.0:
        raise FormulaError(f"{name} takes a number above 0 and up to 1, not {shown(value)}")
    return float(value)


def _combined(operator: str, left: Formula, right: Formula) -> str:
    """Return the formula to write instead of a product or quotient of two formulas."""
    if left.letters + right.letters > _SHORT:
        return "a difference, as in 2*a - b" if operator == "/" else "a sum, as in a + b"
    # Without the 2, the weights of two terms would cancel.
    return str(2 * left - right if operator == "/" else left + right)


def _refuse(operator: str, left: object, right: object) -> Formula:
    if isinstance(left, Formula) and isinstance(right, Formula):
        done = "divided" if operator == "/" else "multiplied"
        problem = f"a formula can be {done} only by a number or a factor, not by a formula"
        raise FormulaError(f"{problem}; write {_combined(operator, left, right)}")
    operand = right if isinstance(left, Formula) else left
    use = "; a number multiplies a term, as in 0.5*M" if isinstance(operand, (int, float)) else ""
    raise FormulaError(f"{shown(operand)} cannot be an operand of '{operator}' in a formula{use}")
