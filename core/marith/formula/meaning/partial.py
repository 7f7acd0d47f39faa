"""The distribution that a formula defines while only some of its terms are computed."""

from __future__ import annotations

from collections.abc import Collection
from functools import singledispatch

from marith.formula.meaning.leaves import leaves
from marith.formula.meaning.weights import Weights
from marith.formula.tree.factors import Varying
from marith.formula.tree.node import Node
from marith.formula.tree.nodes import Formula, Scaled, Sum
from marith.formula.tree.operators import Supersede, Where
from marith.formula.tree.terms import Classifier, Term


def part(formula: Formula, computed: Collection[Term]) -> Formula | None:
    """Return the distribution that a formula defines while only the terms in `computed` are known.

    The formula has no names. Of a sum, the defined members are added up (the sub-formulas P_t of
    the paper, section 4). A union, an intersection or a cut is defined once all its terms are
    computed. `where` is defined once its condition and one of its formulas are. A draft is used
    until the formula that supersedes it is defined. Returns None if nothing is defined, or if the
    weights of the defined members do not add up to more than zero, as for a classifier alone.

    For `M - 0.5*a + union(b, c)` with M and b computed, the part is `M`.
    """
    return Partial(computed).distribution(formula)


def without_drafts(formula: Formula) -> Formula:
    """Return the formula that remains once all terms are computed and no draft is used any more.

    A draft within a union, an intersection or a cut is never used, and is not removed.
    """
    whole = part(formula, leaves(formula))
    assert whole is not None, "check() refuses a formula without weight"
    return whole


class Partial:
    """The parts of formulas that are defined once the terms in `computed` are computed.

    Caches weights.
    """

    def __init__(self, computed: Collection[Term]) -> None:
        self.computed = frozenset(computed)
        self._weights = Weights()

    def distribution(self, formula: Formula) -> Formula | None:
        """Return the defined part of a formula if its weight is above zero, else None.

        A formula whose terms are all computed is not tested again. `check` accepted it before names
        were bound, when the lower bound on its weight may have been better. For example, p and q
        are `max_prob` of two names of one term. Before binding, the bound on p + 1 − p·q is 1.
        After binding, the weight is p + 1 − p², and the bound from the ranges of its products is 0.
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
    """Return the defined part of a node, or None.

    By default a node is defined once all its terms are computed.
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
def _define_part_of_where(where: Where, partial: Partial) -> Formula | None:
    sides = where.condition.left, where.condition.right
    if not all(partial.complete(side) for side in sides if isinstance(side, Varying)):
        return None
    then, otherwise = partial.distribution(where.then), partial.distribution(where.otherwise)
    if then is None or otherwise is None:
        return then or otherwise
    same = then is where.then and otherwise is where.otherwise
    return where if same else Where(where.condition, then, otherwise)


@defined.register
def _define_part_of_supersede(supersede: Supersede, partial: Partial) -> Formula | None:
    return partial.distribution(supersede.of) or partial.distribution(supersede.draft)
