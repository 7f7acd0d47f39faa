"""Says what to write instead of a formula whose weight is not above zero in every context."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from contextlib import suppress
from itertools import chain
from typing import Any

from marith.errors import FormulaError
from marith.formula.meaning.binding import BARE, bind
from marith.formula.meaning.leaves import leaves
from marith.formula.meaning.polynomials import Weight
from marith.formula.meaning.removal import without_classifiers
from marith.formula.meaning.weights import Weights, weigh
from marith.formula.tree.factors import Arithmetic, Varying, minimum
from marith.formula.tree.node import rebuilt
from marith.formula.tree.nodes import Formula, Name, Scaled, Sum, added
from marith.formula.tree.terms import Classifier

_LONGEST = 72  # characters of a formula that a message suggests
_OFFSET = 0.1  # a number that is added to a factor which may be 0
_LIMIT = 0.5  # the upper bound of a factor that has none
_LARGER = "; raise the factors of the terms that are added, or lower the other factors"


def missing_weight(formula: Formula, bound: Formula, weights: Weights) -> str:
    """Return the message for a formula whose weight is not above zero in every context.

    `bound` is the formula without names.
    """
    weight, terms = weights.of(formula), leaves(bound)
    if terms and without_classifiers(bound) is None:
        problem = "a classifier cannot stand alone: it judges the tokens of other terms"
        return problem + _add_base(formula, weights)
    problem = f"the weights of a formula must add up to more than zero, not {_described(weight)}"
    if not terms:
        return f"{problem}; every term has the factor 0: write another factor"
    if weight.least == -math.inf:
        return problem + _limit(formula, weights)
    return problem + _advice(lambda: _repaired(formula, weights), weights, _LARGER)


def is_guided(bound: Formula) -> bool:
    """Return whether each classifier has a guide, or other terms whose tokens it can judge."""
    if not any(isinstance(term, Classifier) and term.guide is None for term in leaves(bound)):
        return True
    rest = without_classifiers(bound)
    return rest is not None and bool(leaves(rest)) and weigh(rest).positive


def missing_guide(formula: Formula, weights: Weights) -> str:
    """Return the message for a classifier without a guide, and without terms that guide it."""
    problem = "a classifier needs other terms, or a guide, whose tokens it judges"
    return problem + _add_base(formula, weights)


def _add_base(formula: Formula, weights: Weights) -> str:
    """Return the advice to add the bare model."""
    return _advice(lambda: _with_base(formula, 1.0), weights, "; add a term")


def _described(weight: Weight) -> str:
    """Return a weight as text, with its lower bound unless the text shows the bound."""
    if weight.constant is not None or weight.numbers is None:
        return str(weight)
    if weight.least == -math.inf:
        return f"{weight}, which has no lower bound"
    return f"{weight}, which may be as low as {round(weight.least, 4) + 0.0:.4g}"


def _limit(formula: Formula, weights: Weights) -> str:
    """Return advice about factors without an upper bound whose terms are subtracted."""
    weight = weights.of(formula)
    subtracted = (m for m, number in (weight.numbers or {}).items() if number < 0)
    factors = {f: None for f in chain(*subtracted) if weight.atoms[f].range[1] == math.inf}
    if not factors:
        return ""

    def build() -> Formula:
        limited: Formula = _limited(formula, factors)
        return limited if weights.of(limited).positive else _repaired(limited, weights)

    limits = ", ".join(f"minimum({_LIMIT}, {factor})" for factor in factors)
    return _advice(build, weights, f"; limit the factor, as in {limits}")


def _limited(node: Any, factors: Collection[Varying]) -> Any:
    """Return a formula whose weight has upper bounds for all these factors."""
    match node:
        case Varying() if node in factors:
            return minimum(_LIMIT, node)
        case Sum() | Scaled() | Arithmetic("+" | "-" | "*"):
            return rebuilt(node, lambda part: _limited(part, factors))
    return node


def _advice(build: Callable[[], Formula], weights: Weights, otherwise: str) -> str:
    """Return the advice to write a formula, or `otherwise` if it is long or would be refused."""
    with suppress(FormulaError):
        suggested = build()
        short = len(str(suggested)) <= _LONGEST
        if short and weights.of(suggested).positive and is_guided(bind(suggested, weights.terms)):
            return f"; write, for example, {suggested}"
    return otherwise


def _repaired(formula: Formula, weights: Weights) -> Formula:
    """Return a similar formula whose weight is above zero.

    The factors of its added terms, divided by the weight, come to at most 2 in total, because
    larger factors make texts worse.
    """
    weight = weights.of(formula)
    members = formula.members if isinstance(formula, Sum) else (formula,)
    sizes = [weights.of(member).constant or 0.0 for member in members]
    above = sum(size for size in sizes if size > 0)
    below = -sum(size for size in sizes if size < 0)
    if above:
        if weight.constant is not None and below:
            more, less = 2.0, above / below
        else:
            more, less = 2 - 2 * weight.least / above, 1.0
        changed = zip(members, sizes, strict=True)
        return added(*(_times(more if size > 0 else less, m) if size else m for m, size in changed))
    match formula:
        case Scaled(Varying() as factor, of) if (size := weights.of(of).constant or 0.0) > 0:
            return Scaled(Arithmetic("+", round(_OFFSET - weight.least / size, 4), factor), of)
    return _with_base(formula, round(-2 * weight.least, 4) or 1.0)


def _times(times: float, formula: Formula) -> Formula:
    """Return the product with a number that is short to read."""
    match formula:
        case Scaled(float() as factor, of):
            return round(times * factor, 4) * of
    return formula if times == 1.0 else round(times, 4) * formula


def _with_base(formula: Formula, weight: float) -> Formula:
    return added(weight * Name(BARE), formula)
