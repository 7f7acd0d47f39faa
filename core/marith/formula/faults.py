"""What is wrong with one node of a formula, in a sentence."""

from __future__ import annotations

import math

from marith.formula.binding import unknown
from marith.formula.compounds import Agreed, Mixture, Posterior, Relu, SelfDebias, Where
from marith.formula.factors import LARGEST_FACTOR, Arithmetic, Comparison, Factor
from marith.formula.measures import Balance, Divergence, Indicator, Shape, Strength
from marith.formula.node import Node
from marith.formula.nodes import (
    Cut,
    Formula,
    Intersection,
    Name,
    Scaled,
    Supersede,
    Tempered,
    Union,
)
from marith.formula.terms import Classifier, Prompted
from marith.formula.weights import Range, Weights, added


def problem(node: Node, weights: Weights) -> str:
    """What is wrong with a node whose parts are sound, or nothing."""
    match node:
        case Name(name) if name not in weights.terms:
            return unknown(name, weights.terms)
        case Scaled(factor, of) if not _gross(factor, of, weights) < LARGEST_FACTOR:
            return "the weights multiply to more than 1e30"
        case Union(members) | Intersection(members) | Mixture(_, members):
            return _mixed_problem(node, members, weights)
        case Agreed(members):
            return _weightless(members, weights)
        case SelfDebias(of, biased):
            return _weightless((of, *biased), weights)
        case Where(Comparison(left, _, right) as condition) if any(
            weights.factor(side).by_token for side in (left, right)
        ):
            return f"a condition is on the context; by token differs {condition}"
        case Where(_, then, otherwise):
            return _weightless((then, otherwise), weights)
        case Supersede(draft, of):
            if not (weights.of(draft).positive and weights.of(of).positive):
                return "a draft and what supersedes it need weight above zero"
        case Cut(of, kind, _) if not weights.of(of).positive:
            return f"{kind} cuts a distribution, and this has no weight above zero"
        case Tempered(of) if not weights.of(of).positive:
            return "temperature changes a distribution, and this has no weight above zero"
        case Relu(of) | Indicator(of) if not weights.of(of).nothing:
            name = type(node).__name__.lower()
            return f"{name} takes a difference; the weights of {of} add up to {weights.of(of)}"
        case Posterior(members):
            return _unprompted("posterior", members, weights)
    return _factor_problem(node, weights)


def _factor_problem(node: Node, weights: Weights) -> str:
    match node:
        case Arithmetic("/", _, right) if _holds_zero(weights.factor(right).range):
            return f"a factor that may be zero divides: {right}"
        case Arithmetic() if (size := _largest(weights.factor(node).range)) > LARGEST_FACTOR:
            return f"a factor is at most 1e30 in size, and this may be {size:.6g}"
        case Divergence(first, second):
            return _weightless((first, second), weights)
        case Shape(_, of):
            return _weightless((of,), weights)
        case Strength(judge) if not isinstance(_named(judge, weights), Classifier):
            return f"strength takes a classifier, not {judge}"
        case Balance(first, second):
            return _unprompted("balance", (first, second), weights)
    return ""


def _gross(factor: Factor, of: Formula, weights: Weights) -> float:
    """How large a factor's numbers are, alone or times a weight's."""
    own = weights.factor(factor).gross
    return max(own, own * weights.of(of).gross)


def _holds_zero(within: Range) -> bool:
    low, high = within
    return low <= 0 <= high


def _largest(within: Range) -> float:
    return max((abs(end) for end in within if math.isfinite(end)), default=0.0)


def _mixed_problem(node: Node, members: tuple[Formula, ...], weights: Weights) -> str:
    for member in members:
        if isinstance(_named(member, weights), Classifier):
            return "a classifier cannot be a member: it has no distribution of its own"
    if isinstance(node, Mixture):
        total = added([weights.factor(one) for one in node.weights])
        if total.by_token:
            return f"the weights of a mixture must not differ from token to token, as {total} does"
        if not (total.positive and math.isfinite(total.gross)):
            return f"the weights of a mixture must add up to more than zero, not {total}"
    return _weightless(members, weights)


def _weightless(members: tuple[Formula, ...], weights: Weights) -> str:
    for member in members:
        own = weights.of(member)
        if not own.positive:
            return f"every member needs weight above zero; {member} has {own}"
    return ""


def _unprompted(name: str, members: tuple[Formula, ...], weights: Weights) -> str:
    for member in members:
        if not isinstance(_named(member, weights), Prompted):
            return f"{name} takes prompted models, whose texts have a likelihood, not {member}"
    return ""


def _named(formula: Formula, weights: Weights) -> Formula:
    return weights.terms.get(formula.name, formula) if isinstance(formula, Name) else formula
