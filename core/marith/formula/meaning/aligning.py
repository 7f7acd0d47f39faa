"""A formula for terms whose vocabularies nearly agree with the base model's."""

from __future__ import annotations

from collections.abc import Mapping

from marith.formula.tree.aligned import Aligned
from marith.formula.tree.node import Node, rebuilt
from marith.formula.tree.nodes import Formula
from marith.formula.tree.operators import Supersede, supersede
from marith.formula.tree.terms import Classifier, Observation, Term


def aligned(
    formula: Formula, lacking: Mapping[Term, tuple[int, ...]], ends: tuple[int, ...]
) -> Formula:
    """Return a bound formula with its terms as `Aligned`.

    `lacking` has each term with another vocabulary, and the tokens of the base model that it lacks.
    The ends of such a term are one event already. `ends` are the ends of all other terms.
    Classifiers stay as they are, because they judge only tokens that other terms allow. Drafts stay
    too, because no draft changes a distribution.
    """

    def change(node: Node) -> Node:
        if isinstance(node, Supersede):
            return supersede(node.draft, aligned(node.of, lacking, ends))
        if not isinstance(node, Term):
            return rebuilt(node, change)
        if isinstance(node, Classifier | Observation):
            return node
        tokens, own_ends = lacking.get(node, ()), () if node in lacking else ends
        # A term with all tokens and one end needs no other rule, and is composed faster.
        return Aligned(node, tokens, own_ends) if tokens or len(own_ends) > 1 else node

    changed = change(formula)
    assert isinstance(changed, Formula)
    return changed
