"""Weights as polynomials in the factors that depend on the context, and ranges of values."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, product
from typing import NamedTuple, TypeAlias

from marith.formula.tree.factors import Varying
from marith.formula.tree.printing import times_text

Monomial: TypeAlias = "tuple[Varying, ...]"
Numbers: TypeAlias = "Mapping[Monomial, float] | None"
Range: TypeAlias = tuple[float, float]
# float32 can divide a score by this weight.
SMALLEST_WEIGHT = 1e-30
# A sum counts as zero if it is at most this share of the sum of its absolute values.
ROUNDING = 1e-6
# For at most this number of factors, all combinations of the ends of their ranges are tried.
FEW = 8
# A weight is written as a sum of products if the products have at most this number of factors in
# total. If they have more factors, only the range of the weight is kept.
MANY = 256


class Atom(NamedTuple):
    """A factor that is not a sum or product: its range, and whether it differs between tokens."""

    range: Range
    tokenwise: bool


@dataclass(frozen=True, slots=True)
class Weight:
    """The possible values of a weight or a factor, as a range and as a sum of products of factors.

    - `range`: the range of the weight, computed from the expression as it is written and not
      multiplied out. For example, it shows that any power of (max_prob(M) + 1) is at least 1. If
      numbers of both signs are added, the range is wider by the rounding error.
    - `numbers`: the number before each product, so that equal products cancel; None if the sum
      would be too long.
    - `gross`: the sum of the absolute values of the numbers, before products cancel.
    - `tokenwise`: whether a factor has a value for each token, before products cancel.
    - `atoms`: the factors in the products.

    The weight of `max_prob(M)*a - max_prob(M)*b + 2*M` has the numbers {(): 2}, and `gross` is 4.
    """

    range: Range
    numbers: Numbers
    gross: float = 1.0
    tokenwise: bool = False
    atoms: Mapping[Varying, Atom] = field(default_factory=dict)

    def __mul__(self, other: Weight) -> Weight:
        numbers, gross = _multiplied(self.numbers, other.numbers), self.gross * other.gross
        tokenwise, atoms = self.tokenwise or other.tokenwise, self.atoms or other.atoms
        within = product_range((self.range, other.range))
        return Weight(within, _reduced(numbers, gross), gross, tokenwise, atoms)

    @property
    def constant(self) -> float | None:
        """The weight if it is equal in every context, else None."""
        if self.numbers is None or any(self.numbers):
            return None
        return self.numbers.get((), 0.0)

    @property
    def nothing(self) -> bool:
        """True if the weight is zero in every context, up to rounding."""
        return self.constant is not None and abs(self.constant) <= ROUNDING * self.gross

    @property
    def least(self) -> float:
        """A lower bound on the weight in every context."""
        if self.numbers is None:
            return self.range[0]
        return max(self.range[0], _least(self.numbers, self.atoms))

    @property
    def by_token(self) -> bool:
        """True if the weight differs from token to token, which theorem 1 does not allow."""
        factors = None if self.numbers is None else chain.from_iterable(self.numbers)
        return self.tokenwise and (
            factors is None or any(self.atoms[factor].tokenwise for factor in factors)
        )

    @property
    def positive(self) -> bool:
        """True if the weight exceeds zero by more than rounding, in all contexts for all tokens."""
        if self.by_token:
            return False
        if self.constant is None and self.range[0] > SMALLEST_WEIGHT:
            return True
        return self.least > max(SMALLEST_WEIGHT, ROUNDING * self.gross)

    def __str__(self) -> str:
        if self.numbers is None:
            return f"a number from {self.range[0]:.4g} to {self.range[1]:.4g}"
        if self.constant is not None:
            return f"{self.constant:.6g}"
        text = ""
        for monomial, number in self.numbers.items():
            if not number:
                continue
            size = [f"{abs(number):.6g}"] if abs(number) != 1 or not monomial else []
            sign = (" − " if number < 0 else " + ") if text else "−" * (number < 0)
            text += sign + "·".join([*size, *sorted(map(times_text, monomial))])
        return text


def added(weights: Collection[Weight]) -> Weight:
    """Return the sum of several weights."""
    gross = sum(weight.gross for weight in weights)
    numbers: dict[Monomial, float] = {}
    for monomial, number in chain.from_iterable((w.numbers or {}).items() for w in weights):
        numbers[monomial] = numbers.get(monomial, 0.0) + number
    too_long = any(weight.numbers is None for weight in weights)
    tokenwise = any(weight.tokenwise for weight in weights)
    atoms = next((weight.atoms for weight in weights if weight.atoms), {})
    low = _sum([weight.range[0] for weight in weights])
    high = -_sum([-weight.range[1] for weight in weights])
    reduced = None if too_long else _reduced(numbers, gross)
    return Weight((low, high), reduced, gross, tokenwise, atoms)


def constant(value: float) -> Weight:
    """Return the weight that has this value in every context."""
    return Weight((value, value), {(): value}, abs(value))


def _size(numbers: Mapping[Monomial, float]) -> int:
    return sum(map(len, numbers))


def _reduced(numbers: Numbers, gross: float) -> Numbers:
    """Return the sum without the products that cancel, or None if the sum is too long."""
    if numbers is None:
        return None
    reduced = {m: n for m, n in numbers.items() if not m or abs(n) > ROUNDING * gross}
    return reduced if _size(reduced) <= MANY else None


def _multiplied(left: Numbers, right: Numbers) -> Numbers:
    """Return the product of two sums, or None if it is too long."""
    if left is None or right is None:
        return None
    if _size(left) * len(right) + _size(right) * len(left) > MANY:
        return None
    numbers: dict[Monomial, float] = {}
    for (first, m), (second, n) in product(left.items(), right.items()):
        monomial = tuple(sorted((*first, *second), key=hash))
        numbers[monomial] = numbers.get(monomial, 0.0) + m * n
    return numbers


def _least(numbers: Mapping[Monomial, float], atoms: Mapping[Varying, Atom]) -> float:
    """Return a lower bound on a sum of products.

    A sum that is linear in each factor has its minimum where each factor is at an end of its range.
    """
    ranges = {factor: atoms[factor].range for monomial in numbers for factor in monomial}
    linear = all(len({*monomial}) == len(monomial) for monomial in numbers)
    if linear and len(ranges) <= FEW and all(map(math.isfinite, chain(*ranges.values()))):
        return _lowest(numbers, list(ranges.items()))
    return sum(_scaled(product_range(ranges[f] for f in m), n)[0] for m, n in numbers.items())


def _lowest(numbers: Mapping[Monomial, float], factors: list[tuple[Varying, Range]]) -> float:
    """Return the minimum of a sum over all combinations of the ends of its factors' ranges."""
    if not factors:
        return numbers.get((), 0.0)
    (chosen, ends), *rest = factors
    lowest = []
    for end in {*ends}:
        numbers_at_end: dict[Monomial, float] = {}
        for monomial, number in numbers.items():
            others = tuple(factor for factor in monomial if factor != chosen)
            at_end = number if len(others) == len(monomial) else number * end
            if at_end:
                numbers_at_end[others] = numbers_at_end.get(others, 0.0) + at_end
        lowest.append(_lowest(numbers_at_end, rest))
    return min(lowest)


def _sum(lows: Collection[float]) -> float:
    """Return the sum of lower bounds. If their signs differ, subtract the rounding error."""
    above = sum(low for low in lows if low > 0)
    below = -sum(low for low in lows if low < 0)
    if math.isinf(below):
        return -math.inf
    return above - below - ROUNDING * (above + below) * (above > 0 and below > 0)


def product_range(ranges: Iterable[Range]) -> Range:
    """Return the range of a product of factors whose ranges are `ranges`."""
    low, high = 1.0, 1.0
    for a, b in ranges:
        ends = [_times(x, y) for x in (low, high) for y in (a, b)]
        low, high = min(ends), max(ends)
    return low, high


def _scaled(bounds: Range, number: float) -> Range:
    return product_range((bounds, (number, number)))


def _times(x: float, y: float) -> float:
    # Python's 0 · ∞ is NaN, but a product with the factor 0 is 0.
    return 0.0 if 0.0 in (x, y) else x * y
