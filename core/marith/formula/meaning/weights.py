"""The weights of formulas, by kind of node, and the ranges of factors.

By default a formula has the weight 1, as every distribution has, and a factor is an atom with a
range from 0 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import singledispatch

from marith.errors import FormulaError
from marith.formula.meaning.binding import unknown
from marith.formula.meaning.polynomials import Atom, Range, Weight, added, constant, product_range
from marith.formula.tree.factors import Arithmetic, Extreme, Factor, Varying
from marith.formula.tree.node import parts
from marith.formula.tree.nodes import Cut, Formula, Name, Scaled, Sum, Tempered
from marith.formula.tree.operators import Agreed, Posterior, Relu, Supersede
from marith.formula.tree.printing import locate
from marith.formula.tree.signals import Concentration, Divergence, Index
from marith.formula.tree.terms import Classifier


class Weights:
    """The weights of formulas, each computed once. `terms` are the meanings of names."""

    def __init__(self, terms: Mapping[str, Formula] | None = None) -> None:
        self.terms = terms or {}
        self._formulas: dict[Formula, Weight] = {}
        self._factors: dict[Varying, Weight] = {}
        self._atoms: dict[Varying, Atom] = {}

    def of(self, formula: Formula) -> Weight:
        """Return the weight of a formula: the f in score / f (theorem 1)."""
        if formula not in self._formulas:
            self._formulas[formula] = node_weight(formula, self)
        return self._formulas[formula]

    def factor(self, factor: Factor) -> Weight:
        """Return a factor as a sum of products of atoms, with its range."""
        if isinstance(factor, float):
            return constant(factor)
        if factor not in self._factors:
            self._factors[factor] = factor_weight(factor, self)
        return self._factors[factor]

    def atom(self, factor: Varying) -> Weight:
        """Return the weight that consists of one factor, which is not a sum or a product."""
        within = factor_range(factor, self)
        inner = (self.factor(part) for part in parts(factor) if isinstance(part, Varying))
        tokenwise = factor.tokenwise or any(weight.by_token for weight in inner)
        self._atoms[factor] = Atom(within, tokenwise)
        return Weight(within, {(factor,): 1.0}, 1.0, tokenwise, self._atoms)


@singledispatch
def node_weight(_formula: Formula, _weights: Weights) -> Weight:
    """Return the weight of a formula, which depends on its kind of node."""
    return constant(1.0)


@node_weight.register
def _weigh_name(name: Name, weights: Weights) -> Weight:
    if name.name not in weights.terms:
        raise FormulaError(unknown(name.name, weights.terms), *locate(name, name))
    return weights.of(weights.terms[name.name])


@node_weight.register
def _weigh_scaled(scaled: Scaled, weights: Weights) -> Weight:
    return weights.factor(scaled.factor) * weights.of(scaled.of)


@node_weight.register
def _weigh_sum(total: Sum, weights: Weights) -> Weight:
    return added([weights.of(member) for member in total.members])


@node_weight.register
def _weigh_supersede_or_cut_or_tempered(
    node: Supersede | Cut | Tempered, weights: Weights
) -> Weight:
    return weights.of(node.of)


@node_weight.register
def _weigh_classifier_or_relu_or_posterior_or_agreed(
    _node: Classifier | Relu | Posterior | Agreed, _weights: Weights
) -> Weight:
    return constant(0.0)


@singledispatch
def factor_weight(factor: Varying, weights: Weights) -> Weight:
    """Return a factor as a sum of products of atoms."""
    return weights.atom(factor)


@factor_weight.register
def _weigh_arithmetic(factor: Arithmetic, weights: Weights) -> Weight:
    if factor.operator == "/":
        return weights.atom(factor)
    left, right = weights.factor(factor.left), weights.factor(factor.right)
    if factor.operator == "*":
        return left * right
    return added([left, right if factor.operator == "+" else constant(-1.0) * right])


@singledispatch
def factor_range(_factor: Varying, _weights: Weights) -> Range:
    """Return the smallest and the largest value that a factor can have."""
    return 0.0, 1.0


@factor_range.register
def _arithmetic_range(division: Arithmetic, weights: Weights) -> Range:
    low, high = weights.factor(division.right).range
    inverse = (1 / high, 1 / low) if low > 0 or high < 0 else (-math.inf, math.inf)
    return product_range((weights.factor(division.left).range, inverse))


@factor_range.register
def _extreme_range(extreme: Extreme, weights: Weights) -> Range:
    choose = max if extreme.kind == "maximum" else min
    lows, highs = zip(*(weights.factor(factor).range for factor in extreme.of), strict=True)
    return choose(lows), choose(highs)


@factor_range.register
def _divergence_range(divergence: Divergence, _weights: Weights) -> Range:
    return 0.0, 1.0 if divergence.order is None else math.inf


@factor_range.register
def _concentration_range(concentration: Concentration, _weights: Weights) -> Range:
    # The largest entropy depends on the size of the vocabulary, which is not known here.
    return 0.0, math.inf if concentration.kind == "entropy" else 1.0


@factor_range.register
def _index_range(_index: Index, _weights: Weights) -> Range:
    return 0.0, math.inf


def weigh(formula: Formula, terms: Mapping[str, Formula] | None = None) -> Weight:
    """Return the weight of a formula; see `Weights.of`. `terms` are the meanings of names."""
    return Weights(terms).of(formula)


def weight_of(formula: Formula, terms: Mapping[str, Formula] | None = None) -> float:
    """Return a lower bound on a formula's total weight in every context: the Σ fᵢ of theorem 1."""
    return weigh(formula, terms).least
