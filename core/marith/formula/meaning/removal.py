"""A formula without its cuts, and a formula without its classifiers."""

from __future__ import annotations

from functools import singledispatch

from marith.formula.tree.node import Node, rebuilt
from marith.formula.tree.nodes import Cut, Formula, Scaled, Sum
from marith.formula.tree.operators import Agreed, Intersection, Supersede, Union
from marith.formula.tree.signals import ClassProb
from marith.formula.tree.terms import Classifier, Term


def without_cuts(formula: Formula) -> Formula:
    """Return the formula without its cuts: it allows every token that its terms allow.

    Cuts within factors and within the guides of classifiers stay, because they forbid no token.
    """
    if isinstance(formula, Cut):
        return without_cuts(formula.of)
    if isinstance(formula, Agreed):
        # Multiplied by 0, the mask forbids no token; it has no score and no weight.
        return Scaled(0.0, formula)
    return rebuilt(formula, lambda part: without_cuts(part) if isinstance(part, Formula) else part)


@singledispatch
def without_classifiers(formula: Formula) -> Formula | None:
    """Return the formula without its classifiers, or None if nothing is left.

    A classifier that names no guide has the result as its guide. By default a node needs all its
    parts: if nothing is left of one part, nothing is left of the node.
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
    if isinstance(part, ClassProb):
        # Its classifier judges the text so far, and needs no guide.
        return part
    if not isinstance(part, Formula):
        return rebuilt(part, _part_without_classifiers)
    formula = without_classifiers(part)
    if formula is None:
        raise _Empty
    return formula
