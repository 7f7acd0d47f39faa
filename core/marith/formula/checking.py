"""What means nothing is refused here, before any model loads; what surprises is warned of."""

from __future__ import annotations

from collections.abc import Mapping

from marith.errors import FormulaError
from marith.formula.binding import bind
from marith.formula.nodes import (
    LARGEST_FACTOR,
    Cut,
    Formula,
    Intersection,
    Name,
    Scaled,
    Sum,
    Supersede,
    Union,
    Unscaled,
    children,
    number,
)
from marith.formula.printing import locate, number_text
from marith.formula.terms import Classifier, Term

SMALLEST_WEIGHT = 1e-30  # float32 divides by it
ROUNDING = 1e-6
AMPLIFYING = 10.0


def check(formula: Formula, terms: Mapping[str, Formula]) -> list[str]:
    """Refuse a formula that means nothing; return warnings where its meaning may surprise.

    `terms` are bound. Raises FormulaError, the formula quoted with a caret under the fault.
    """
    _refuse_faults(formula, terms)
    bound = bind(formula, terms)
    _refuse_faults(bound, terms)  # what a named term holds may be at fault too
    weight = weight_of(formula, terms)
    if not has_weight(formula, terms):
        raise FormulaError(
            f"the weights of a formula must add up to more than zero, not {weight:.6g}: "
            "with less it would flip its own preferences",
            *locate(formula, formula),
        )
    unguided = any(_is_unguided(term) for term in leaves(bound))
    if unguided and not _has_rest(bound):
        raise FormulaError(
            "a classifier needs other terms, or a guide, whose tokens it judges",
            *locate(formula, formula),
        )
    return _warnings(weight)


def weight_of(formula: Formula, terms: Mapping[str, Formula] | None = None) -> float:
    """How much distribution stands behind a formula's score: the f in score / f (theorem 1)."""
    match formula:
        case Name(name):
            if terms is None or name not in terms:
                known = ", ".join(sorted(terms or ())) or "none"
                problem = f"unknown term {name!r}; known are {known}"
                raise FormulaError(problem, *locate(formula, formula))
            return weight_of(terms[name], terms)
        case Scaled(factor, of):
            return factor * weight_of(of, terms)
        case Sum(members):
            return sum(weight_of(member, terms) for member in members)
        case Supersede(_, of) | Cut(of, _, _):
            return weight_of(of, terms)
        case Classifier():
            return 0.0
    return 1.0


def has_weight(formula: Formula, terms: Mapping[str, Formula]) -> bool:
    """Whether the weight is above zero by more than the rounding of the weights in it."""
    weight = weight_of(formula, terms)
    return weight > max(SMALLEST_WEIGHT, ROUNDING * _gross_weight(formula, terms))


def _gross_weight(formula: Formula, terms: Mapping[str, Formula]) -> float:
    match formula:
        case Name(name):
            return _gross_weight(terms[name], terms)
        case Scaled(factor, of):
            return abs(factor) * _gross_weight(of, terms)
        case Sum(members):
            return sum(_gross_weight(member, terms) for member in members)
        case Supersede(_, of) | Cut(of, _, _):
            return _gross_weight(of, terms)
    return abs(weight_of(formula, terms))


def leaves(formula: Formula) -> list[Term]:
    """The distinct terms of a bound formula, in order; a classifier's guide comes before it.

    What is multiplied by zero has no say and is left out, and so has a draft that is superseded.
    """
    found: dict[Term, None] = {}

    def visit(node: Formula) -> None:
        match node:
            case Scaled(0.0, _):
                return
            case Classifier(guide=Formula() as guide):
                visit(guide)
            case Supersede(_, of):
                visit(of)
                return
        if isinstance(node, Term):
            found[node] = None
        for child in children(node):
            visit(child)

    visit(formula)
    return list(found)


def without_classifiers(formula: Formula) -> Formula | None:
    """The formula less its classifiers: what guides those that name no guide. None if empty."""
    match formula:
        case Classifier():
            return None
        case Sum(members):
            kept = tuple(k for m in members if (k := without_classifiers(m)) is not None)
            return Sum(kept) if kept else None
        case Scaled(factor, of):
            inner = without_classifiers(of)
            return None if inner is None else Scaled(factor, inner)
        case Union(members) | Intersection(members):
            kept = tuple(k for m in members if (k := without_classifiers(m)) is not None)
            return type(formula)(kept) if kept else None
        case Supersede(_, of):
            return without_classifiers(of)
        case Unscaled(of):
            inner = without_classifiers(of)
            return None if inner is None else Unscaled(inner)
        case Cut(of, kind, bound):
            inner = without_classifiers(of)
            return None if inner is None else Cut(inner, kind, bound)
    return formula


def _problem(node: Formula, terms: Mapping[str, Formula]) -> str:
    """What is wrong with one node, or nothing."""
    match node:
        case Name(name) if name not in terms:
            return f"unknown term {name!r}; known are {', '.join(sorted(terms))}"
        case Scaled(factor, _) if (
            not abs(number(factor) * weight_of(node.of, terms)) < LARGEST_FACTOR
        ):
            return "the weights multiply to more than 1e30"
        case Union(members) | Intersection(members):
            for member in members:
                if isinstance(_named(member, terms), Classifier):
                    return "a classifier cannot be a member: it has no distribution of its own"
                if not has_weight(member, terms):
                    own = weight_of(member, terms)
                    return f"every member needs weight above zero; {member} has {own:.6g}"
        case Supersede(draft, of):
            if not (has_weight(draft, terms) and has_weight(of, terms)):
                return "a draft and what supersedes it need weight above zero"
        case Unscaled(of) if not leaves(bind(of, terms)):
            return "unscaled needs a term that is not multiplied by zero"
        case Cut(of, kind, _) if not has_weight(of, terms):
            return f"{kind} cuts a distribution, and this has no weight above zero"
        case Classifier(guide=Formula() as guide):
            check(guide, terms)
            if any(isinstance(leaf, Classifier) for leaf in leaves(bind(guide, terms))):
                return "a guide has no classifier in it"
    return ""


def _parts(formula: Formula) -> list[Formula]:
    """Every node, the innermost first, so that the caret lies under the smallest fault."""
    found: list[Formula] = []
    for child in children(formula):
        found += _parts(child)
    return [*found, formula]


def _named(formula: Formula, terms: Mapping[str, Formula]) -> Formula:
    return terms.get(formula.name, formula) if isinstance(formula, Name) else formula


def _is_unguided(term: Term) -> bool:
    return isinstance(term, Classifier) and term.guide is None


def _has_rest(bound: Formula) -> bool:
    """Whether other terms speak, whose likeliest tokens a classifier can judge."""
    rest = without_classifiers(bound)
    return rest is not None and bool(leaves(rest)) and has_weight(rest, {})


def _refuse_faults(formula: Formula, terms: Mapping[str, Formula]) -> None:
    for node in _parts(formula):
        problem = _problem(node, terms)
        if problem:
            raise FormulaError(problem, *locate(formula, node))


def _warnings(weight: float) -> list[str]:
    if abs(weight - 1.0) < ROUNDING:
        return []
    scale = number_text(float(f"{1 / weight:.6g}"))
    total = number_text(float(f"{weight:.6g}"))
    text = f"the weights add up to {total}, so every factor counts {scale} times what is written"
    if 1 / weight > AMPLIFYING:
        text += "; so large a factor needs float32 and amplifies what the models are unsure of"
    return [text]
