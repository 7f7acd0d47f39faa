"""What is wrong with one node of a formula, in a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from marith.formula.compounds import Agreed, Mixture, Posterior, Relu, SelfDebias, Where
from marith.formula.factors import LARGEST_FACTOR, Arithmetic, Factor, Node
from marith.formula.measures import Balance, Divergence, Indicator, Shape, Strength
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
from marith.formula.weights import Weight, bounds, expanded, is_by_token, weigh

Terms = Mapping[str, Formula]


def problem(node: Node, terms: Terms) -> str:
    """What is wrong with a node whose parts are sound, or nothing."""
    match node:
        case Name(name) if name not in terms:
            return f"unknown term {name!r}; known are {', '.join(sorted(terms))}"
        case Scaled(factor, of) if not _size(factor, weigh(of, terms)) < LARGEST_FACTOR:
            return "the weights multiply to more than 1e30"
        case Union(members) | Intersection(members) | Mixture(_, members):
            return _mixed_problem(node, members, terms)
        case Agreed(members):
            return _weightless(members, terms)
        case SelfDebias(of, biased):
            return _weightless((of, *biased), terms)
        case Where(condition) if any(map(is_by_token, (condition.left, condition.right))):
            return f"a condition is on the context; by token differs {condition}"
        case Where(_, then, otherwise):
            return _weightless((then, otherwise), terms)
        case Supersede(draft, of):
            if not (weigh(draft, terms).positive and weigh(of, terms).positive):
                return "a draft and what supersedes it need weight above zero"
        case Cut(of, kind, _) if not weigh(of, terms).positive:
            return f"{kind} cuts a distribution, and this has no weight above zero"
        case Tempered(of) if not weigh(of, terms).positive:
            return "temperature changes a distribution, and this has no weight above zero"
        case Relu(of) | Indicator(of) if not weigh(of, terms).nothing:
            name = type(node).__name__.lower()
            return f"{name} takes a difference; the weights of {of} add up to {weigh(of, terms)}"
        case Posterior(members):
            return _unprompted("posterior", members, terms)
    return _factor_problem(node, terms)


def _factor_problem(node: Node, terms: Terms) -> str:
    match node:
        case Arithmetic("/", _, right) if bounds(right)[0] <= 0 <= bounds(right)[1]:
            return f"a factor that may be zero divides: {right}"
        case Arithmetic() if (size := max(_finite(bounds(node)), default=0.0)) > LARGEST_FACTOR:
            return f"a factor is at most 1e30 in size, and this may be {size:.6g}"
        case Divergence(first, second):
            return _weightless((first, second), terms)
        case Shape(_, of):
            return _weightless((of,), terms)
        case Strength(judge) if not isinstance(_named(judge, terms), Classifier):
            return f"strength takes a classifier, not {judge}"
        case Balance(first, second):
            return _unprompted("balance", (first, second), terms)
    return ""


def _size(factor: Factor, weight: Weight) -> float:
    """How large a factor's numbers are, alone or times a weight's."""
    own = expanded(factor)
    return max(own.gross, (own * weight).gross)


def _finite(ends: Iterable[float]) -> list[float]:
    return [abs(end) for end in ends if math.isfinite(end)]


def _mixed_problem(node: Node, members: tuple[Formula, ...], terms: Terms) -> str:
    for member in members:
        if isinstance(_named(member, terms), Classifier):
            return "a classifier cannot be a member: it has no distribution of its own"
    if isinstance(node, Mixture):
        total = sum((expanded(w) for w in node.weights[1:]), expanded(node.weights[0]))
        if total.by_token:
            return f"the weights of a mixture must not differ from token to token, as {total} does"
        if not (total.positive and math.isfinite(total.gross)):
            return f"the weights of a mixture must add up to more than zero, not {total}"
    return _weightless(members, terms)


def _weightless(members: tuple[Formula, ...], terms: Terms) -> str:
    for member in members:
        own = weigh(member, terms)
        if not own.positive:
            return f"every member needs weight above zero; {member} has {own}"
    return ""


def _unprompted(name: str, members: tuple[Formula, ...], terms: Terms) -> str:
    for member in members:
        if not isinstance(_named(member, terms), Prompted):
            return f"{name} takes prompted models, whose texts have a likelihood, not {member}"
    return ""


def _named(formula: Formula, terms: Terms) -> Formula:
    return terms.get(formula.name, formula) if isinstance(formula, Name) else formula
