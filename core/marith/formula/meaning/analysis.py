"""Which terms a formula is computed from, and what of it some of them define."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import singledispatch

from marith.formula.meaning.weights import Weights, weigh
from marith.formula.tree.factors import Varying
from marith.formula.tree.node import Node, descend, parts, rebuilt
from marith.formula.tree.nodes import Formula, Scaled, Sum
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


def weight_of(formula: Formula, terms: Mapping[str, Formula] | None = None) -> float:
    """How much distribution stands behind a formula's score, at the least (theorem 1)."""
    return weigh(formula, terms).least


# -- the terms that a formula is computed from -----------------------------------------------------


def leaves(formula: Node) -> list[Term]:
    """The distinct terms of a bound formula, in order; a classifier's guide comes before it.

    What is multiplied by zero is left out, and so is a draft. Observations that factors need stand
    among them.
    """
    found: dict[Term, None] = {}
    _collect(formula, found, set())
    return list(found)


def _collect(node: Node, found: dict[Term, None], visited: set[Node]) -> None:
    if node in visited:
        return
    visited.add(node)
    for inner in needed(node):
        _collect(inner, found, visited)
    if isinstance(node, Term):
        found[node] = None


@singledispatch
def needed(node: Node) -> tuple[Node, ...]:
    """What one kind of node is computed from: its parts, unless registered."""
    return parts(node)


@needed.register
def _(scaled: Scaled) -> tuple[Node, ...]:
    return () if scaled.factor == 0.0 else parts(scaled)


@needed.register
def _(classifier: Classifier) -> tuple[Node, ...]:
    return classifier.inner


@needed.register
def _(supersede: Supersede) -> tuple[Node, ...]:
    return (supersede.of,)


@needed.register
def _(strength: Strength) -> tuple[Node, ...]:
    return (judgement_of(strength.judge),)


@needed.register
def _(_factor: First | Decay) -> tuple[Node, ...]:
    return (POSITION,)


@needed.register
def _(balance: Balance) -> tuple[Node, ...]:
    first, second = balance.first, balance.second
    return likelihood_of(first), likelihood_of(second), first, second


@needed.register
def _(posterior: Posterior) -> tuple[Node, ...]:
    return (*map(likelihood_of, posterior.members), POSITION, *posterior.members)


# -- drafts ----------------------------------------------------------------------------------------


def drafts(formula: Formula) -> list[Term]:
    """The distinct terms that only draft: they change what a text costs, and never the text."""
    found: dict[Term, None] = {}
    for node in descend(formula):  # drafts of drafts among them
        if isinstance(node, Supersede):
            found |= dict.fromkeys(leaves(node.draft))
    used = set(leaves(formula))
    return [term for term in found if term not in used]


def superseding(formula: Formula, draft: Term) -> list[Formula]:
    """What a draft drafts for: once part of each can be computed, the draft is not used."""
    supersedes = [node for node in descend(formula) if isinstance(node, Supersede)]
    return [node.of for node in supersedes if draft in (*leaves(node.draft), *drafts(node.draft))]


def without_drafts(formula: Formula) -> Formula:
    """What is left once every draft has been superseded.

    A draft within a union, an intersection or a cut is never used; it stays there.
    """
    whole = part(formula, leaves(formula))
    assert whole is not None, "check() refuses a formula without weight"
    return whole


# -- what some of the terms define -----------------------------------------------------------------


def part(formula: Formula, computed: Collection[Term]) -> Formula | None:
    """The distribution that a bound formula defines while only `computed` are; None if none.

    A sum is the sum of what is defined of its members (the sub-formulas P_t of the paper, section
    4); a union, an intersection and a cut are defined once all their terms are computed; a draft
    is used until what supersedes it is defined. None too where the weights of what is defined add
    up to nothing, as when only a classifier is computed.
    """
    return Partial(computed).distribution(formula)


class Partial:
    """What formulas define once some terms are computed; a weight is computed once."""

    def __init__(self, computed: Collection[Term]) -> None:
        self.computed = frozenset(computed)
        self._weights = Weights()

    def distribution(self, formula: Formula) -> Formula | None:
        """What is defined, if it has a weight; `check` has found that the whole formula has.

        It found so before names were bound. Two names of one term have one factor once they are,
        and the least value of p + 1 − p·q is 1, that of p + 1 − p² by its parts alone 0.
        """
        found = defined(formula, self)
        if found is None or self.complete(formula) or self._weights.of(found).positive:
            return found
        return None

    def complete(self, node: Node) -> bool:
        """Whether all terms of a node are computed."""
        return self.computed.issuperset(leaves(node))


@singledispatch
def defined(formula: Formula, partial: Partial) -> Formula | None:
    """What one kind of node defines: itself once all its terms are computed, unless registered."""
    return formula if partial.complete(formula) else None


@defined.register
def _(term: Term, partial: Partial) -> Formula | None:
    return term if term in partial.computed else None


@defined.register
def _(classifier: Classifier, partial: Partial) -> Formula | None:
    return classifier if partial.complete(classifier) else None


@defined.register
def _(scaled: Scaled, partial: Partial) -> Formula | None:
    factor = scaled.factor
    if factor == 0.0 or (isinstance(factor, Varying) and not partial.complete(factor)):
        return None
    inner = defined(scaled.of, partial)
    if inner is None or inner is scaled.of:
        return None if inner is None else scaled
    return inner * factor


@defined.register
def _(total: Sum, partial: Partial) -> Formula | None:
    found = (defined(member, partial) for member in total.members)
    kept = tuple(member for member in found if member is not None)
    if kept == total.members:
        return total
    return Sum(kept) if len(kept) > 1 else next(iter(kept), None)


@defined.register
def _(supersede: Supersede, partial: Partial) -> Formula | None:
    return partial.distribution(supersede.of) or partial.distribution(supersede.draft)


# -- what guides a classifier ----------------------------------------------------------------------


@singledispatch
def without_classifiers(formula: Formula) -> Formula | None:
    """The formula less its classifiers: what guides those that name no guide. None if empty.

    A kind of node that is not registered needs all its parts: where one is empty, it is too.
    """
    try:
        return rebuilt(formula, _guiding)
    except _Empty:
        return None


@without_classifiers.register
def _(term: Term) -> Formula | None:
    return None if isinstance(term, Classifier) else term


@without_classifiers.register
def _(node: Sum | Union | Intersection) -> Formula | None:
    kept = tuple(k for m in node.members if (k := without_classifiers(m)) is not None)
    return type(node)(kept) if kept else None


@without_classifiers.register
def _(supersede: Supersede) -> Formula | None:
    return without_classifiers(supersede.of)


class _Empty(Exception):
    """Nothing is left of a part that a node needs."""


def _guiding(part: Node) -> Node:
    """A part of a node without its classifiers. Raises _Empty where nothing is left."""
    if isinstance(part, Strength):
        return part  # the text so far is judged, no token
    if not isinstance(part, Formula):
        return rebuilt(part, _guiding)
    left = without_classifiers(part)
    if left is None:
        raise _Empty
    return left
