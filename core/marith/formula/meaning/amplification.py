"""How much a formula enlarges an error of the log-probabilities that it is computed from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch

from marith.formula.meaning.weights import Weights
from marith.formula.tree.factors import Varying
from marith.formula.tree.nodes import Cut, Formula, Name, Scaled, Sum, Tempered
from marith.formula.tree.operators import (
    Agreed,
    Intersection,
    Mixture,
    Posterior,
    Relu,
    SelfDebias,
    Supersede,
    Union,
    Unscaled,
    Where,
)
from marith.formula.tree.terms import Classifier


def amplification(formula: Formula, terms: Mapping[str, Formula] | None = None) -> float:
    """At most so many times an error of each term's log-probabilities, in those of the formula.

    For `M - 0.96*union(toxic, M)` it is (1 + 0.96) / 0.04 = 49. Factors that depend on the context
    count by the largest number that they can be, or as 1 where there is none. 1 for one term.
    """
    return _relative(formula, Weights(terms))


def _relative(formula: Formula, weights: Weights) -> float:
    """That of a formula divided by its weight, where it has one."""
    least = weights.of(formula).least
    return enlarged(formula, weights) / (least if least > 0 else 1.0)


@singledispatch
def enlarged(_formula: Formula, _weights: Weights) -> float:
    """The factor of an error in a formula's score: 1, that of a term, unless registered."""
    return 1.0


@enlarged.register
def _enlarge_name(name: Name, weights: Weights) -> float:
    return enlarged(weights.terms[name.name], weights)


@enlarged.register
def _enlarge_scaled(scaled: Scaled, weights: Weights) -> float:
    low, high = weights.factor(scaled.factor).range
    largest = max(abs(low), abs(high))
    finite = largest if largest < float("inf") or not isinstance(scaled.factor, Varying) else 1.0
    return finite * enlarged(scaled.of, weights)


@enlarged.register
def _enlarge_sum(total: Sum, weights: Weights) -> float:
    return sum(enlarged(member, weights) for member in total.members)


@enlarged.register
def _enlarge_union_or_intersection_or_mixture(
    node: Union | Intersection | Mixture, weights: Weights
) -> float:
    return max(_relative(member, weights) for member in node.members)


@enlarged.register
def _enlarge_where(node: Where, weights: Weights) -> float:
    return max(_relative(member, weights) for member in (node.then, node.otherwise))


@enlarged.register
def _enlarge_cut_or_relu_or_supersede_or_unscaled(
    node: Cut | Relu | Supersede | Unscaled, weights: Weights
) -> float:
    return enlarged(node.of, weights)


@enlarged.register
def _enlarge_tempered(node: Tempered, weights: Weights) -> float:
    return enlarged(node.of, weights) / node.at


@enlarged.register
def _enlarge_self_debias(node: SelfDebias, weights: Weights) -> float:
    """An error of a logarithm is at most so large in a probability, and λ times that of two."""
    worst = max(_relative(member, weights) for member in (node.of, *node.biased))
    return (1 + 2 * node.decay) * worst


@enlarged.register
def _enlarge_posterior(node: Posterior, weights: Weights) -> float:
    """A difference of two mean log-likelihoods."""
    return 2 * max(_relative(member, weights) for member in node.members)


@enlarged.register
def _enlarge_classifier_or_agreed(_node: Classifier | Agreed, _weights: Weights) -> float:
    return 0.0
