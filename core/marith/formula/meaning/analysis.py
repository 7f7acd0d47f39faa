"""What of a formula can be said when only some of its terms have spoken."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeGuard

from marith.formula.meaning.weights import Weights, weigh
from marith.formula.tree.factors import Varying
from marith.formula.tree.node import Node, parts, rebuilt
from marith.formula.tree.nodes import Formula, Scaled, Sum, walk
from marith.formula.tree.operators import Intersection, Posterior, Supersede, Union
from marith.formula.tree.signals import (
    POSITION,
    Balance,
    Decay,
    First,
    Strength,
    judgement_of,
    likelihood_of,
)
from marith.formula.tree.terms import Classifier, Term


def part(formula: Formula, spoken: Collection[Term]) -> Formula | None:
    """The distribution that a bound formula names while only `spoken` have; None if there is none.

    A sum is the sum of what its members can say (the sub-formulas P_t of the paper, section 4);
    a union, an intersection and a cut say nothing before all their terms have spoken; a draft
    speaks until what supersedes it can. None too where the weights of what is said add up to
    nothing, as when only a classifier has spoken.
    """
    return _Partial(spoken).part(formula)


def drafts(formula: Formula) -> list[Term]:
    """The distinct terms that only draft: they change what a text costs, and never the text."""
    found: dict[Term, None] = {}
    for node in walk(formula):  # drafts of drafts among them
        if isinstance(node, Supersede):
            found |= dict.fromkeys(leaves(node.draft))
    spoken = set(leaves(formula))
    return [term for term in found if term not in spoken]


def superseding(formula: Formula, draft: Term) -> list[Formula]:
    """What a draft drafts for: once something of each can be said, it is heard no more."""
    return [node.of for node in walk(formula) if _drafts_in(node, draft)]


def without_drafts(formula: Formula) -> Formula:
    """What is left once every draft has been superseded.

    Within a union, an intersection or a cut a draft never spoke; there it stays, without a say.
    """
    whole = part(formula, leaves(formula))
    assert whole is not None, "check() refuses a formula without weight"
    return whole


def _drafts_in(node: Formula, term: Term) -> TypeGuard[Supersede]:
    """Whether a node supersedes a term."""
    return isinstance(node, Supersede) and term in (*leaves(node.draft), *drafts(node.draft))


class _Partial:
    """What formulas can say once some terms have spoken; a weight is computed once."""

    def __init__(self, spoken: Collection[Term]) -> None:
        self.spoken = frozenset(spoken)
        self.weights = Weights()

    def part(self, formula: Formula) -> Formula | None:
        """What is said, if it has a weight; `check` has found that the whole formula has.

        It found so before names were bound. Two names of one term have one factor once they are,
        and the least value of p + 1 − p·q is 1, that of p + 1 − p² by its parts alone 0.
        """
        said = self.said(formula)
        if said is None or self.all_spoken(formula) or self.weights.of(said).positive:
            return said
        return None

    def said(self, formula: Formula) -> Formula | None:
        match formula:
            case Scaled(0.0, _):
                return None
            case Classifier(guide=Formula() as guide) if not self.all_spoken(guide):
                return None
            case Term():
                return formula if formula in self.spoken else None
            case Scaled(Varying() as factor, _) if not self.all_spoken(factor):
                return None
            case Scaled(factor, of):
                inner = self.said(of)
                if inner is None or inner is of:
                    return None if inner is None else formula
                return inner * factor
            case Sum(members):
                said = [self.said(member) for member in members]
                kept = tuple(one for one in said if one is not None)
                return formula if kept == members else _sum(kept)
            case Supersede(draft, of):
                return self.part(of) or self.part(draft)
        return formula if self.all_spoken(formula) else None

    def all_spoken(self, formula: Node) -> bool:
        return self.spoken.issuperset(leaves(formula))


def _sum(members: tuple[Formula, ...]) -> Formula | None:
    if len(members) < 2:
        return members[0] if members else None
    return Sum(members)


def weight_of(formula: Formula, terms: Mapping[str, Formula] | None = None) -> float:
    """How much distribution stands behind a formula's score, at the least (theorem 1)."""
    return weigh(formula, terms).least


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
