"""Raise errors for invalid formulas before any model loads, and warn of surprising formulas."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import singledispatch

from marith.errors import FormulaError
from marith.formula.meaning.binding import bind, names_in, unknown
from marith.formula.meaning.large_factors import extreme
from marith.formula.meaning.leaves import leaves
from marith.formula.meaning.missing_weight import is_guided, missing_guide, missing_weight
from marith.formula.meaning.polynomials import added
from marith.formula.meaning.weights import Weights
from marith.formula.tree.factors import LARGEST_FACTOR, Arithmetic
from marith.formula.tree.node import Node, parts
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
from marith.formula.tree.printing import locate
from marith.formula.tree.signals import (
    Balance,
    ClassProb,
    Concentration,
    Divergence,
    Indicator,
)
from marith.formula.tree.terms import Classifier, Prompted


def warnings_of(formula: Formula, terms: Mapping[str, Formula]) -> list[str]:
    """Return the warnings about a formula: at most one, about factors that are too large.

    `terms` must contain no names. Raises FormulaError for an invalid formula, as `check` does.
    """
    warning = extreme(check(formula, terms), terms)
    return [warning] if warning else []


def check(formula: Formula, terms: Mapping[str, Formula]) -> Formula:
    """Check a formula, and return it with its names replaced by `terms`.

    `terms` must contain no names. Raises FormulaError for a formula without a meaning; the message
    quotes the formula, with a caret under the fault.
    """
    weights = Weights(terms)
    _refuse_faults(formula, weights, formula, set())
    bound = bind(formula, terms)
    # The first check does not look into named terms, which may have faults of their own.
    _refuse_faults(bound, weights, bound, set())
    # Names are not bound here, because the lower bound on the weight may be worse after binding.
    weight = weights.of(formula)
    if weight.by_token:
        raise FormulaError(
            f"the weights of a formula must not differ from token to token, as {weight} does",
            *locate(formula, formula),
        )
    if not weight.positive and (weight.constant or 0) > 0:
        raise FormulaError(
            f"the factors of a formula cancel: they add up to {weight}, which is within the "
            "rounding error of these factors; write smaller numbers",
            *locate(formula, formula),
        )
    if not weight.positive:
        problem = missing_weight(formula, bound, weights)
        raise FormulaError(problem, *locate(formula, formula))
    if not is_guided(bound):
        raise FormulaError(missing_guide(formula, weights), *locate(formula, formula))
    return bound


def _refuse_faults(node: Node, weights: Weights, whole: Formula, sound: set[Node]) -> None:
    """Raise FormulaError for a fault in a node or its parts. `sound` has nodes without faults.

    Parts are checked before the whole, so that the caret is under the smallest part with a fault.
    """
    if node in sound:
        return
    for part in parts(node):
        _refuse_faults(part, weights, whole, sound)
    if message := problem(node, weights):
        raise FormulaError(message, *locate(whole, node))
    sound.add(node)


def _is_zero(formula: Formula, terms: Mapping[str, Formula]) -> bool:
    """Return whether all of a formula is multiplied by zero."""
    match formula:
        case Scaled(0.0, _):
            return True
        case Scaled(float(), of) | Supersede(_, of) | Unscaled(of):
            return _is_zero(of, terms)
        case Sum(members):
            return all(_is_zero(member, terms) for member in members)
        case Name(name):
            return _is_zero(terms[name], terms)
    return not any(names_in(formula)) and not leaves(formula)


@singledispatch
def problem(_node: Node, _weights: Weights) -> str:
    """Return a message about the fault of a node, or "". By default a node has no fault.

    The parts of the node were checked before the node.
    """
    return ""


@problem.register
def _check_name(name: Name, weights: Weights) -> str:
    return "" if name.name in weights.terms else unknown(name.name, weights.terms)


@problem.register
def _check_scaled(scaled: Scaled, weights: Weights) -> str:
    size = weights.factor(scaled.factor).gross
    fits = max(size, size * weights.of(scaled.of).gross) < LARGEST_FACTOR
    return "" if fits else "the weights multiply to more than 1e30"


@problem.register
def _check_union_or_intersection(node: Union | Intersection, weights: Weights) -> str:
    return _classifier_among(node.members, weights) or weightless(node.members, weights)


@problem.register
def _check_mixture(mixture: Mixture, weights: Weights) -> str:
    if message := _classifier_among(mixture.members, weights):
        return message
    total = added([weights.factor(weight) for weight in mixture.weights])
    if total.by_token:
        return f"the weights of a mixture must not differ from token to token, as {total} does"
    if not (total.positive and math.isfinite(total.gross)):
        return f"the weights of a mixture must add up to more than zero, not {total}"
    return weightless(mixture.members, weights)


@problem.register
def _check_agreed(agreed: Agreed, weights: Weights) -> str:
    return weightless(agreed.members, weights)


@problem.register
def _check_self_debias(node: SelfDebias, weights: Weights) -> str:
    return weightless((node.of, *node.biased), weights)


@problem.register
def _check_where(where: Where, weights: Weights) -> str:
    condition = where.condition
    if any(weights.factor(side).by_token for side in (condition.left, condition.right)):
        return f"the condition of where must not differ from token to token, as {condition} does"
    return weightless((where.then, where.otherwise), weights)


@problem.register
def _check_supersede(supersede: Supersede, weights: Weights) -> str:
    if weights.of(supersede.draft).positive and weights.of(supersede.of).positive:
        return ""
    return "a draft and the formula that supersedes it need a weight above zero"


@problem.register
def _check_unscaled(unscaled: Unscaled, weights: Weights) -> str:
    is_zero = _is_zero(unscaled.of, weights.terms)
    return "unscaled needs a term that is not multiplied by zero" if is_zero else ""


@problem.register
def _check_cut(cut: Cut, weights: Weights) -> str:
    if weights.of(cut.of).positive:
        return ""
    return f"{cut.kind} cuts a distribution, and this has no weight above zero"


@problem.register
def _check_tempered(tempered: Tempered, weights: Weights) -> str:
    if weights.of(tempered.of).positive:
        return ""
    return "temperature changes a distribution, and this has no weight above zero"


@problem.register
def _check_relu_or_indicator(node: Relu | Indicator, weights: Weights) -> str:
    weight, name = weights.of(node.of), type(node).__name__.lower()
    if weight.nothing:
        return ""
    return f"{name} takes a difference; the weights of {node.of} add up to {weight}"


@problem.register
def _check_classifier(classifier: Classifier, weights: Weights) -> str:
    if classifier.guide is None:
        return ""
    check(classifier.guide, weights.terms)
    terms = leaves(bind(classifier.guide, weights.terms))
    return "a guide has no classifier in it" if any(map(_is_classifier, terms)) else ""


@problem.register
def _check_posterior(posterior: Posterior, weights: Weights) -> str:
    return _unprompted("posterior", posterior.members, weights)


@problem.register
def _check_balance(balance: Balance, weights: Weights) -> str:
    return _unprompted("balance", (balance.first, balance.second), weights)


@problem.register
def _check_arithmetic(factor: Arithmetic, weights: Weights) -> str:
    if factor.operator == "/":
        low, high = weights.factor(factor.right).range
        if low <= 0 <= high:
            return f"division by a factor that may be zero: {factor.right}"
    ends = filter(math.isfinite, weights.factor(factor).range)
    if (size := max(map(abs, ends), default=0.0)) > LARGEST_FACTOR:
        return f"a factor is at most 1e30 in size, and this may be {size:.6g}"
    return ""


@problem.register
def _check_divergence(factor: Divergence, weights: Weights) -> str:
    return weightless((factor.first, factor.second), weights)


@problem.register
def _check_concentration(factor: Concentration, weights: Weights) -> str:
    return weightless((factor.of,), weights)


@problem.register
def _check_class_prob(factor: ClassProb, weights: Weights) -> str:
    if _is_classifier(_named(factor.judge, weights)):
        return ""
    return f"class_prob takes a classifier, not {factor.judge}"


def weightless(members: Iterable[Formula], weights: Weights) -> str:
    """Return a message about the first member whose weight is not above zero, else ""."""
    for member in members:
        weight = weights.of(member)
        if not weight.positive:
            return f"every member needs weight above zero; {member} has {weight}"
    return ""


def _classifier_among(members: Iterable[Formula], weights: Weights) -> str:
    if any(_is_classifier(_named(member, weights)) for member in members):
        return "a classifier cannot be a member: it has no distribution of its own"
    return ""


def _unprompted(name: str, members: Iterable[Formula], weights: Weights) -> str:
    for member in members:
        if not isinstance(_named(member, weights), Prompted):
            return f"{name} takes prompted models, whose texts have a likelihood, not {member}"
    return ""


def _named(formula: Formula, weights: Weights) -> Formula:
    return weights.terms.get(formula.name, formula) if isinstance(formula, Name) else formula


def _is_classifier(formula: Formula) -> bool:
    return isinstance(formula, Classifier)
