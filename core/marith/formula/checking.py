"""What means nothing is refused here, before any model loads; what surprises is warned of."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from marith.errors import FormulaError
from marith.formula.binding import bind, names_in
from marith.formula.compounds import Posterior
from marith.formula.faults import problem
from marith.formula.measures import (
    POSITION,
    Balance,
    Decay,
    First,
    Strength,
    judgement_of,
    likelihood_of,
)
from marith.formula.node import Node, descend, parts, rebuilt
from marith.formula.nodes import (
    Formula,
    Intersection,
    Name,
    Scaled,
    Sum,
    Supersede,
    Union,
    Unscaled,
)
from marith.formula.printing import locate, number_text
from marith.formula.terms import Classifier, Term
from marith.formula.weights import ROUNDING, Weights, weigh

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


def weight_of(formula: Formula, terms: Mapping[str, Formula] | None = None) -> float:
    """How much distribution stands behind a formula's score, at the least (theorem 1)."""
    return weigh(formula, terms).least


def has_weight(formula: Formula, terms: Mapping[str, Formula]) -> bool:
    """Whether the weight is above zero in every context, by more than rounding."""
    return weigh(formula, terms).positive


def leaves(formula: Node) -> list[Term]:
    """The distinct terms of a bound formula, in order; a classifier's guide comes before it.

    What is multiplied by zero has no say and is left out, and so has a draft that is superseded.
    What factors observe of the text stands among them.
    """
    found: dict[Term, None] = {}
    visited: set[Node] = set()

    def visit(node: Node) -> None:
        if node in visited:
            return
        visited.add(node)
        match node:
            case Scaled(0.0, _):
                return
            case Classifier(guide=Formula() as guide):
                visit(guide)
            case Supersede(_, of):
                visit(of)
                return
            case Strength(judge):
                found[judgement_of(judge)] = None
                return
            case First() | Decay():
                found[POSITION] = None
            case Balance(first, second):
                found.update(dict.fromkeys(map(likelihood_of, (first, second))))
            case Posterior(members):
                found.update(dict.fromkeys((*map(likelihood_of, members), POSITION)))
        if isinstance(node, Term):
            found[node] = None
        for part in parts(node):
            visit(part)

    visit(formula)
    return list(found)


def without_classifiers(formula: Formula) -> Formula | None:
    """The formula less its classifiers: what guides those that name no guide. None if empty."""
    match formula:
        case Classifier():
            return None
        case Term():
            return formula
        case Sum(members):
            kept = tuple(k for m in members if (k := without_classifiers(m)) is not None)
            return Sum(kept) if kept else None
        case Union(members) | Intersection(members):
            kept = tuple(k for m in members if (k := without_classifiers(m)) is not None)
            return type(formula)(kept) if kept else None
        case Supersede(_, of):
            return without_classifiers(of)
    return _stripped(formula)


def _stripped(formula: Formula) -> Formula | None:
    """A node that needs all its parts, these without classifiers; None where one has nothing."""
    whole = True

    def strip(part: Node) -> Node:
        nonlocal whole
        if isinstance(part, Strength):
            return part
        if not isinstance(part, Formula):
            return rebuilt(part, strip)
        inner = without_classifiers(part)
        whole = whole and inner is not None
        return part if inner is None else inner

    stripped = rebuilt(formula, strip)
    return stripped if whole else None


def _is_unguided(term: Term) -> bool:
    return isinstance(term, Classifier) and term.guide is None


def _has_rest(bound: Formula) -> bool:
    """Whether other terms speak, whose likeliest tokens a classifier can judge."""
    rest = without_classifiers(bound)
    return rest is not None and bool(leaves(rest)) and has_weight(rest, {})


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
