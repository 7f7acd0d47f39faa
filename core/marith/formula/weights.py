"""How much distribution stands behind a score, where factors depend on the context."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain, product
from typing import TypeAlias

from marith.errors import FormulaError
from marith.formula.compounds import Agreed, Posterior, Relu
from marith.formula.factors import Arithmetic, Extreme, Factor, Sigmoid, Varying
from marith.formula.measures import Divergence, Indicator, Shape
from marith.formula.nodes import Cut, Formula, Name, Scaled, Sum, Supersede, Tempered
from marith.formula.printing import locate, times_text
from marith.formula.terms import Classifier

Monomial: TypeAlias = "tuple[Varying, ...]"
Range: TypeAlias = "tuple[float, float]"
SMALLEST_WEIGHT = 1e-30  # float32 divides by it
ROUNDING = 1e-6
FEW = 8  # factors, whose ends are tried in every combination


@dataclass(frozen=True, slots=True)
class Weight:
    """A sum of products of factors, each with a number: what is left when all has cancelled.

    `gross` is what the numbers would add up to if nothing cancelled, which bounds the rounding.
    """

    numbers: Mapping[Monomial, float] = field(default_factory=dict)
    gross: float = 0.0

    def __add__(self, other: Weight) -> Weight:
        added = dict(self.numbers)
        for monomial, number in other.numbers.items():
            added[monomial] = added.get(monomial, 0.0) + number
        gross = self.gross + other.gross
        kept = {m: n for m, n in added.items() if not m or abs(n) > ROUNDING * gross}
        return Weight(kept, gross)

    def __mul__(self, other: Weight) -> Weight:
        products = (
            Weight({tuple(sorted((*a, *b), key=repr)): m * n}, abs(m * n))
            for a, m in self.numbers.items()
            for b, n in other.numbers.items()
        )
        product = reduce(Weight.__add__, products, Weight())
        return Weight(product.numbers, self.gross * other.gross)

    @property
    def constant(self) -> float | None:
        """The weight, where it is the same in every context."""
        return None if any(self.numbers) else self.numbers.get((), 0.0)

    @property
    def nothing(self) -> bool:
        """Whether it is zero but for rounding, in every context."""
        return self.constant is not None and abs(self.constant) <= ROUNDING * self.gross

    @property
    def least(self) -> float:
        """The least that the weight can be, whatever the context.

        Linear in each factor, it is least where every factor is at one of its ends.
        """
        ends = {one: bounds(one) for monomial in self.numbers for one in monomial}
        linear = all(len({*monomial}) == len(monomial) for monomial in self.numbers)
        if linear and len(ends) <= FEW and all(map(math.isfinite, chain(*ends.values()))):
            corners = (dict(zip(ends, at, strict=True)) for at in product(*ends.values()))
            return min(map(self._at, corners))
        return sum(_scaled(_product(map(bounds, m)), n)[0] for m, n in self.numbers.items())

    @property
    def by_token(self) -> bool:
        """Whether it differs from token to token, which theorem 1 does not allow."""
        return any(is_by_token(factor) for monomial in self.numbers for factor in monomial)

    @property
    def positive(self) -> bool:
        """Whether it is above zero by more than rounding, in every context and for every token."""
        return not self.by_token and self.least > max(SMALLEST_WEIGHT, ROUNDING * self.gross)

    def _at(self, values: Mapping[Varying, float]) -> float:
        """The weight where its factors have these values."""
        return math.fsum(
            number * math.prod(values[one] for one in monomial)
            for monomial, number in self.numbers.items()
        )

    def __str__(self) -> str:
        if self.constant is not None:
            return f"{self.constant:.6g}"
        text = ""
        for monomial, number in self.numbers.items():
            if not number:
                continue
            size = [f"{abs(number):.6g}"] if abs(number) != 1 or not monomial else []
            sign = (" − " if number < 0 else " + ") if text else "−" * (number < 0)
            text += sign + "·".join([*size, *map(times_text, monomial)])
        return text


def weigh(formula: Formula, terms: Mapping[str, Formula] | None = None) -> Weight:
    """The f in score / f (theorem 1), by names as `terms` has them."""
    match formula:
        case Name(name):
            if terms is None or name not in terms:
                known = ", ".join(sorted(terms or ())) or "none"
                problem = f"unknown term {name!r}; known are {known}"
                raise FormulaError(problem, *locate(formula, formula))
            return weigh(terms[name], terms)
        case Scaled(factor, of):
            return expanded(factor) * weigh(of, terms)
        case Sum(members):
            return reduce(Weight.__add__, (weigh(member, terms) for member in members))
        case Supersede(_, of) | Cut(of, _, _) | Tempered(of, _):
            return weigh(of, terms)
        case Classifier() | Relu() | Posterior() | Agreed():
            return Weight()
    return _number(1.0)


def expanded(factor: Factor) -> Weight:
    """A factor as a sum of products of what cannot be taken apart."""
    match factor:
        case float():
            return _number(factor)
        case Arithmetic("+", left, right):
            return expanded(left) + expanded(right)
        case Arithmetic("-", left, right):
            return expanded(left) + _number(-1.0) * expanded(right)
        case Arithmetic("*", left, right):
            return expanded(left) * expanded(right)
    return Weight({(factor,): 1.0}, 1.0)


def bounds(factor: Factor) -> Range:
    """What a factor can be at least and at most."""
    match factor:
        case float():
            return factor, factor
        case Arithmetic("+", left, right):
            (a, b), (c, d) = bounds(left), bounds(right)
            return a + c, b + d
        case Arithmetic("-", left, right):
            (a, b), (c, d) = bounds(left), bounds(right)
            return a - d, b - c
        case Arithmetic("*", left, right):
            return _product(map(bounds, (left, right)))
        case Arithmetic(_, left, right):
            low, high = bounds(right)
            inverse = (1 / high, 1 / low) if low > 0 or high < 0 else (-math.inf, math.inf)
            return _product((bounds(left), inverse))
        case Extreme(kind, of):
            choose = max if kind == "largest" else min
            lows, highs = zip(*map(bounds, of), strict=True)
            return choose(lows), choose(highs)
        case Sigmoid():
            return 0.0, 1.0
        case Divergence(order=float()) | Shape(kind="entropy"):
            return 0.0, math.inf
    return 0.0, 1.0


def is_by_token(factor: Factor) -> bool:
    """Whether a factor differs from token to token."""
    match factor:
        case Indicator():
            return True
        case Arithmetic(_, left, right):
            return is_by_token(left) or is_by_token(right)
        case Extreme(_, of):
            return any(map(is_by_token, of))
        case Sigmoid(of):
            return is_by_token(of)
    return False


def _number(value: float) -> Weight:
    return Weight({(): value}, abs(value))


def _product(ranges: Iterable[Range]) -> Range:
    low, high = 1.0, 1.0
    for a, b in ranges:
        ends = [_times(x, y) for x in (low, high) for y in (a, b)]
        low, high = min(ends), max(ends)
    return low, high


def _scaled(of: Range, number: float) -> Range:
    return _product((of, (number, number)))


def _times(x: float, y: float) -> float:
    return 0.0 if 0.0 in (x, y) else x * y  # 0 · ∞ bounds nothing
