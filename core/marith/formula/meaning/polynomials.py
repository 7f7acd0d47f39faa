"""Weights as polynomials in the factors that depend on the context, and the ranges of both."""

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
SMALLEST_WEIGHT = 1e-30  # float32 divides by it
ROUNDING = 1e-6
FEW = 8  # factors, whose ends are tried in every combination
MANY = 256  # factors in all products together; a longer sum stays a product of sums


class Atom(NamedTuple):
    """A factor that is not taken apart: what it can be, and whether it differs by token."""

    range: Range
    tokenwise: bool


@dataclass(frozen=True, slots=True)
class Weight:
    """What a weight, or a factor, can be: as a range, and as a sum of products of factors.

    `numbers` has the number before each product, as what cancels cancels there alone; None where
    the sum would be too long. `range` is of the weight as it is written, so that (peak(M) + 1)
    to any power is at least 1; where numbers of two signs meet, it is wider by their rounding.
    `gross` is what the numbers would add up to if nothing cancelled.
    """

    range: Range
    numbers: Numbers
    gross: float = 1.0
    tokenwise: bool = False  # whether a factor in it, as it is written, differs by token
    atoms: Mapping[Varying, Atom] = field(default_factory=dict)  # the factors in the products

    def __mul__(self, other: Weight) -> Weight:
        numbers, gross = _multiplied(self.numbers, other.numbers), self.gross * other.gross
        tokenwise, atoms = self.tokenwise or other.tokenwise, self.atoms or other.atoms
        within = product_range((self.range, other.range))
        return Weight(within, _kept(numbers, gross), gross, tokenwise, atoms)

    @property
    def constant(self) -> float | None:
        """The weight, where it is the same in every context."""
        if self.numbers is None or any(self.numbers):
            return None
        return self.numbers.get((), 0.0)

    @property
    def nothing(self) -> bool:
        """Whether it is zero but for rounding, in every context."""
        return self.constant is not None and abs(self.constant) <= ROUNDING * self.gross

    @property
    def least(self) -> float:
        """The least that the weight can be, whatever the context."""
        if self.numbers is None:
            return self.range[0]
        return max(self.range[0], _least(self.numbers, self.atoms))

    @property
    def by_token(self) -> bool:
        """Whether it differs from token to token, which theorem 1 does not allow."""
        left = None if self.numbers is None else chain.from_iterable(self.numbers)
        return self.tokenwise and (
            left is None or any(self.atoms[factor].tokenwise for factor in left)
        )

    @property
    def positive(self) -> bool:
        """Whether it is above zero by more than rounding, in every context and for every token."""
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
    """The sum of several weights."""
    gross = sum(one.gross for one in weights)
    numbers: dict[Monomial, float] = {}
    for monomial, number in chain.from_iterable((one.numbers or {}).items() for one in weights):
        numbers[monomial] = numbers.get(monomial, 0.0) + number
    kept = None if any(one.numbers is None for one in weights) else _kept(numbers, gross)
    tokenwise = any(one.tokenwise for one in weights)
    atoms = next((one.atoms for one in weights if one.atoms), {})
    low = _sum([one.range[0] for one in weights])
    high = -_sum([-one.range[1] for one in weights])
    return Weight((low, high), kept, gross, tokenwise, atoms)


def constant(value: float) -> Weight:
    """The same number in every context."""
    return Weight((value, value), {(): value}, abs(value))


def _size(numbers: Mapping[Monomial, float]) -> int:
    return sum(map(len, numbers))


def _kept(numbers: Numbers, gross: float) -> Numbers:
    """What has not cancelled, where it is not too much."""
    if numbers is None:
        return None
    kept = {m: n for m, n in numbers.items() if not m or abs(n) > ROUNDING * gross}
    return kept if _size(kept) <= MANY else None


def _multiplied(left: Numbers, right: Numbers) -> Numbers:
    """The product of two sums, where it is not too long."""
    if left is None or right is None:
        return None
    if _size(left) * len(right) + _size(right) * len(left) > MANY:
        return None
    numbers: dict[Monomial, float] = {}
    for (one, m), (other, n) in product(left.items(), right.items()):
        both = tuple(sorted((*one, *other), key=hash))
        numbers[both] = numbers.get(both, 0.0) + m * n
    return numbers


def _least(numbers: Mapping[Monomial, float], atoms: Mapping[Varying, Atom]) -> float:
    """The least of a sum of products: linear in each factor, it is where each is at an end."""
    ends = {one: atoms[one].range for monomial in numbers for one in monomial}
    linear = all(len({*monomial}) == len(monomial) for monomial in numbers)
    if linear and len(ends) <= FEW and all(map(math.isfinite, chain(*ends.values()))):
        return _lowest(numbers, list(ends.items()))
    return sum(_scaled(product_range(ends[one] for one in m), n)[0] for m, n in numbers.items())


def _lowest(numbers: Mapping[Monomial, float], factors: list[tuple[Varying, Range]]) -> float:
    """The least over all the ends of the factors, one of them set after the other."""
    if not factors:
        return numbers.get((), 0.0)
    (chosen, values), *rest = factors
    found = []
    for value in {*values}:
        left: dict[Monomial, float] = {}
        for monomial, number in numbers.items():
            rest_of_it = tuple(one for one in monomial if one != chosen)
            at_value = number if len(rest_of_it) == len(monomial) else number * value
            if at_value:
                left[rest_of_it] = left.get(rest_of_it, 0.0) + at_value
        found.append(_lowest(left, rest))
    return min(found)


def _sum(lows: Collection[float]) -> float:
    """The least of a sum, less its rounding where one of the addends takes from another."""
    above = sum(low for low in lows if low > 0)
    below = -sum(low for low in lows if low < 0)
    if math.isinf(below):
        return -math.inf
    return above - below - ROUNDING * (above + below) * (above > 0 and below > 0)


def product_range(ranges: Iterable[Range]) -> Range:
    """What a product can be, its factors being within `ranges`."""
    low, high = 1.0, 1.0
    for a, b in ranges:
        ends = [_times(x, y) for x in (low, high) for y in (a, b)]
        low, high = min(ends), max(ends)
    return low, high


def _scaled(of: Range, number: float) -> Range:
    return product_range((of, (number, number)))


def _times(x: float, y: float) -> float:
    return 0.0 if 0.0 in (x, y) else x * y  # 0 · ∞ bounds nothing
