"""The terms that a formula is computed from, and the terms that only draft."""

from __future__ import annotations

from functools import singledispatch

from marith.formula.tree.node import Node, descend, parts
from marith.formula.tree.nodes import Formula, Scaled
from marith.formula.tree.operators import Posterior, Supersede
from marith.formula.tree.signals import (
    POSITION,
    Balance,
    ClassProb,
    Decay,
    First,
    Index,
    Inside,
    judgement_of,
    likelihood_of,
    observed_by,
)
from marith.formula.tree.terms import Classifier, Term


def leaves(formula: Node) -> list[Term]:
    """Return the distinct terms that a formula without names needs, in order.

    A guide comes before its classifier. Drafts and formulas that are multiplied by zero are left
    out. Observations that factors need are included.
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
    """Return the nodes from which a node is computed. By default these are all its parts."""
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
def _find_needs_of_class_prob(factor: ClassProb) -> tuple[Node, ...]:
    return (judgement_of(factor.judge),)


@needed.register
def _find_needs_of_first_or_decay_or_index(_factor: First | Decay | Index) -> tuple[Node, ...]:
    return (POSITION,)


@needed.register
def _find_needs_of_inside(inside: Inside) -> tuple[Node, ...]:
    return (observed_by(inside),)


@needed.register
def _find_needs_of_balance(balance: Balance) -> tuple[Node, ...]:
    first, second = balance.first, balance.second
    return likelihood_of(first), likelihood_of(second), first, second


@needed.register
def _find_needs_of_posterior(posterior: Posterior) -> tuple[Node, ...]:
    return (*map(likelihood_of, posterior.members), POSITION, *posterior.members)


def drafts(formula: Formula) -> list[Term]:
    """Return the distinct terms that only draft. They change the cost of a text, never the text."""
    drafting: dict[Term, None] = {}
    # The walk also finds drafts within drafts.
    for node in descend(formula):
        if isinstance(node, Supersede):
            drafting |= dict.fromkeys(leaves(node.draft))
    used = set(leaves(formula))
    return [term for term in drafting if term not in used]
