"""The terms that a formula is computed from, and the part of a formula that some terms define."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import singledispatch

from marith.formula.meaning.weights import Weights, weigh
from marith.formula.tree.factors import Varying
from marith.formula.tree.node import Node, descend, parts, rebuilt
from marith.formula.tree.nodes import Cut, Formula, Scaled, Sum
from marith.formula.tree.operators import Agreed, Intersection, Posterior, Supersede, Union
from marith.formula.tree.signals import (
    POSITION,
    Balance,
    Decay,
    First,
    Index,
    Strength,
    judgement_of,
    likelihood_of,
)
from marith.formula.tree.terms import Classifier, Term


def weight_of(formula: Formula, terms: Mapping[str, Formula] | None = None) -> float:
    """Return the least total weight of a formula in any context: the Σ fᵢ of theorem 1."""
    return weigh(formula, terms).least


# -- the terms that a formula is computed from -----------------------------------------------------


def leaves(formula: Node) -> list[Term]:
    """Return the distinct terms of a bound formula, in order. A guide comes before its classifier.

    Drafts and formulas that are multiplied by zero are left out. Observations that factors need are
    included.
    """
    terms: dict[Term, None] = {}
    _collect(formula, terms, set())
    return list(terms)


def _collect(node: Node, terms: dict[Term, None], visited: set[Node]) -> None:
    if node in visited:
        return
    visited.add(node)
    for inner in needed(node):
        _collect(inner, terms, visited)
    if isinstance(node, Term):
        terms[node] = None


@singledispatch
def needed(node: Node) -> tuple[Node, ...]:
    """Return the nodes that one kind of node is computed from: its parts, unless registered."""
    return parts(node)


@needed.register
def _find_needs_of_scaled(scaled: Scaled) -> tuple[Node, ...]:
    return () if scaled.factor == 0.0 else parts(scaled)


@needed.register
def _find_needs_of_classifier(classifier: Classifier) -> tuple[Node, ...]:
    return classifier.inner


@needed.register
def _find_needs_of_supersede(supersede: Supersede) -> tuple[Node, ...]:
    return (supersede.of,)


@needed.register
def _find_needs_of_strength(strength: Strength) -> tuple[Node, ...]:
    return (judgement_of(strength.judge),)


@needed.register
def _find_needs_of_first_or_decay_or_index(_factor: First | Decay | Index) -> tuple[Node, ...]:
    return (POSITION,)


@needed.register
def _find_needs_of_balance(balance: Balance) -> tuple[Node, ...]:
    first, second = balance.first, balance.second
    return likelihood_of(first), likelihood_of(second), first, second


@needed.register
def _find_needs_of_posterior(posterior: Posterior) -> tuple[Node, ...]:
    return (*map(likelihood_of, posterior.members), POSITION, *posterior.members)


# -- drafts ----------------------------------------------------------------------------------------


def drafts(formula: Formula) -> list[Term]:
    """Return the distinct terms that only draft. They change the cost of a text, never the text."""
    drafting: dict[Term, None] = {}
    for node in descend(formula):  # which includes drafts of drafts
        if isinstance(node, Supersede):
            drafting |= dict.fromkeys(leaves(node.draft))
    used = set(leaves(formula))
    return [term for term in drafting if term not in used]


def without_drafts(formula: Formula) -> Formula:
    """Return the formula with every draft superseded.

    A draft within a union, an intersection or a cut is never used, and is not removed.
    """
    whole = part(formula, leaves(formula))
    assert whole is not None, "check() refuses a formula without weight"
    return whole


# -- the part that some terms define ---------------------------------------------------------------


def part(formula: Formula, computed: Collection[Term]) -> Formula | None:
    """Return the distribution that a bound formula defines while only `computed` are computed.

    A sum is the sum of its defined members (the sub-formulas P_t of the paper, section 4). A union,
    an intersection or a cut is defined once all its terms are computed. A draft is used until the
    formula that supersedes it is defined. Returns None if nothing is defined, and if the weights of
    the defined members add up to zero, as for a classifier alone.

    For `M - 0.5*a + union(b, c)` with M and b computed, the part is `M`.
    """
    return Partial(computed).distribution(formula)


class Partial:
    """Finds the parts of formulas that are defined once some terms are computed. Caches weights."""

    def __init__(self, computed: Collection[Term]) -> None:
        self.computed = frozenset(computed)
        self._weights = Weights()

    def distribution(self, formula: Formula) -> Formula | None:
        """Return the defined part of a formula if its weight is above zero, else None.

        The weight of a whole formula is not tested again, because `check` accepted it before names
        were bound, when bounds may be better. If p and q are the peaks of two names of one term,
        the lower bound of p + 1 − p·q is 1. After binding, the formula is p + 1 − p², and the bound
        from the ranges of its products is 0.
        """
        defined_part = defined(formula, self)
        if defined_part is None or self.complete(formula):
            return defined_part
        return defined_part if self._weights.of(defined_part).positive else None

    def complete(self, node: Node) -> bool:
        """Return whether all terms of a node are computed."""
        return self.computed.issuperset(leaves(node))


@singledispatch
def defined(formula: Formula, partial: Partial) -> Formula | None:
    """Return the defined part of one kind of node.

    Unless registered, a node is defined once all its terms are computed.
    """
    return formula if partial.complete(formula) else None


@defined.register
def _define_part_of_term(term: Term, partial: Partial) -> Formula | None:
    return term if term in partial.computed else None


@defined.register
def _define_part_of_classifier(classifier: Classifier, partial: Partial) -> Formula | None:
    return classifier if partial.complete(classifier) else None


@defined.register
def _define_part_of_scaled(scaled: Scaled, partial: Partial) -> Formula | None:
    factor = scaled.factor
    if factor == 0.0 or (isinstance(factor, Varying) and not partial.complete(factor)):
        return None
    inner = defined(scaled.of, partial)
    if inner is None or inner is scaled.of:
        return None if inner is None else scaled
    return inner * factor


@defined.register
def _define_part_of_sum(total: Sum, partial: Partial) -> Formula | None:
    defined_parts = (defined(member, partial) for member in total.members)
    members = tuple(member for member in defined_parts if member is not None)
    if members == total.members:
        return total
    return Sum(members) if len(members) > 1 else next(iter(members), None)


@defined.register
def _define_part_of_supersede(supersede: Supersede, partial: Partial) -> Formula | None:
    return partial.distribution(supersede.of) or partial.distribution(supersede.draft)


# -- a formula without its cuts --------------------------------------------------------------------


def without_cuts(formula: Formula) -> Formula:
    """Return the formula without its cuts: it allows every token that its terms allow.

    Cuts within factors and within the guides of classifiers stay, because they allow no tokens.
    """
    if isinstance(formula, Cut):
        return without_cuts(formula.of)
    if isinstance(formula, Agreed):
        return Scaled(0.0, formula)  # no score, no weight and no mask
    return rebuilt(formula, lambda part: without_cuts(part) if isinstance(part, Formula) else part)


# -- the guide of a classifier ---------------------------------------------------------------------


@singledispatch
def without_classifiers(formula: Formula) -> Formula | None:
    """Return the formula without its classifiers, or None if nothing is left.

    This is the guide of a classifier that names no guide. A kind of node that is not registered
    needs all its parts: if nothing is left of one part, nothing is left of the node.
    """
    try:
        return rebuilt(formula, _part_without_classifiers)
    except _Empty:
        return None


@without_classifiers.register
def _drop_classifiers_of_term(term: Term) -> Formula | None:
    return None if isinstance(term, Classifier) else term


@without_classifiers.register
def _drop_classifiers_of_sum_or_union_or_intersection(
    node: Sum | Union | Intersection,
) -> Formula | None:
    parts_left = map(without_classifiers, node.members)
    members = tuple(member for member in parts_left if member is not None)
    return type(node)(members) if members else None


@without_classifiers.register
def _drop_classifiers_of_supersede(supersede: Supersede) -> Formula | None:
    return without_classifiers(supersede.of)


class _Empty(Exception):
    """Raised if a part that a node needs has only classifiers."""


def _part_without_classifiers(part: Node) -> Node:
    """Return a part of a node without its classifiers. Raises _Empty if nothing is left."""
    if isinstance(part, Strength):
        return part  # its classifier judges the text so far, not tokens
    if not isinstance(part, Formula):
        return rebuilt(part, _part_without_classifiers)
    formula = without_classifiers(part)
    if formula is None:
        raise _Empty
    return formula
