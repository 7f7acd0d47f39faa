"""What means nothing is refused here, before any model loads; what surprises is warned of."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from marith.errors import FormulaError
from marith.formula.meaning.analysis import leaves, without_classifiers
from marith.formula.meaning.binding import bind, names_in, unknown
from marith.formula.meaning.weights import ROUNDING, Range, Weights, added, weigh
from marith.formula.tree.factors import LARGEST_FACTOR, Arithmetic, Comparison, Factor
from marith.formula.tree.node import Node, descend, parts
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
from marith.formula.tree.printing import locate, number_text
from marith.formula.tree.signals import (
    Balance,
    Divergence,
    Indicator,
    Shape,
    Strength,
)
from marith.formula.tree.terms import Classifier, Prompted, Term

AMPLIFYING = 10.0


def check(formula: Formula, terms: Mapping[str, Formula]) -> list[str]:
    """Refuse a formula that means nothing; return warnings where its meaning may surprise.

    `terms` are bound. Raises FormulaError, the formula quoted with a caret under the fault.
    """
    weights = Weights(terms)
    _refuse_faults(formula, weights)
    bound = bind(formula, terms)
    _refuse_faults(bound, weights)  # what a named term holds may be at fault too
    weight = weights.of(formula)
    if weight.by_token:
        raise FormulaError(
            f"the weights of a formula must not differ from token to token, as {weight} does",
            *locate(formula, formula),
        )
    if not weight.positive:
        raise FormulaError(
            f"the weights of a formula must add up to more than zero, not {weight}: "
            "with less it would flip its own preferences",
            *locate(formula, formula),
        )
    used = leaves(bound)
    unguided = any(_is_unguided(term) for term in used)
    if unguided and not _has_rest(bound):
        raise FormulaError(
            "a classifier needs other terms, or a guide, whose tokens it judges",
            *locate(formula, formula),
        )
    scaled = [] if weight.constant is None else _warnings(weight.constant)
    return scaled + _idle_options(bound, {*used})


def _is_unguided(term: Term) -> bool:
    return isinstance(term, Classifier) and term.guide is None


def _has_rest(bound: Formula) -> bool:
    """Whether other terms speak, whose likeliest tokens a classifier can judge."""
    rest = without_classifiers(bound)
    return rest is not None and bool(leaves(rest)) and weigh(rest).positive


def _refuse_faults(formula: Formula, weights: Weights) -> None:
    """The innermost first, so that the caret lies under the smallest fault."""
    sound: set[Node] = set()

    def visit(node: Node) -> None:
        if node in sound:
            return
        for part in parts(node):
            visit(part)
        if found := problem(node, weights) or _empty(node, weights.terms):
            raise FormulaError(found, *locate(formula, node))
        sound.add(node)

    visit(formula)


def _idle_options(bound: Formula, used: Collection[Term]) -> list[str]:
    """A classifier that is there for its strength alone chooses no tokens, and scales nothing."""
    strengths = (node.judge for node in descend(bound) if isinstance(node, Strength))
    judges = dict.fromkeys(
        judge for judge in strengths if isinstance(judge, Classifier) and judge not in used
    )
    return [
        f"strength is of the text so far: candidates, guide, coverage and scale of {judge} "
        "change nothing, as it judges no tokens"
        for judge in judges
        if judge != Classifier(judge.model, judge.label, read_prompt=judge.read_prompt)
    ]


def _empty(node: Node, terms: Mapping[str, Formula]) -> str:
    """What is wrong with a node for which terms are missing, or nothing."""
    match node:
        case Unscaled(of) if _is_nothing(of, terms):
            return "unscaled needs a term that is not multiplied by zero"
        case Classifier(guide=Formula() as guide):
            check(guide, terms)
            if any(isinstance(leaf, Classifier) for leaf in leaves(bind(guide, terms))):
                return "a guide has no classifier in it"
    return ""


def _is_nothing(formula: Formula, terms: Mapping[str, Formula]) -> bool:
    """Whether all of a formula is multiplied by zero."""
    match formula:
        case Scaled(0.0, _):
            return True
        case Scaled(float(), of) | Supersede(_, of) | Unscaled(of):
            return _is_nothing(of, terms)
        case Sum(members):
            return all(_is_nothing(member, terms) for member in members)
        case Name(name):
            return _is_nothing(terms[name], terms)
    return not any(names_in(formula)) and not leaves(formula)


def _warnings(weight: float) -> list[str]:
    if abs(weight - 1.0) < ROUNDING:
        return []
    scale = number_text(float(f"{1 / weight:.6g}"))
    total = number_text(float(f"{weight:.6g}"))
    text = f"the weights add up to {total}, so every factor counts {scale} times what is written"
    if 1 / weight > AMPLIFYING:
        text += "; so large a factor needs float32 and amplifies what the models are unsure of"
    return [text]


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
