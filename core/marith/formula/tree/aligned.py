"""A term in a formula whose terms have vocabularies that nearly agree."""

from __future__ import annotations

from dataclasses import dataclass

from marith.formula.tree.nodes import Formula


@dataclass(frozen=True, slots=True, eq=False)
class Aligned(Formula):
    """A term over the base model's tokens, if a term of the formula has another vocabulary.

    The term is silent on the tokens in `lacking`: its score and its weight are 0 there. All `ends`
    are one event: the first of them has their probability, and the others have none. Formulas of
    callers have no such node, and it is printed as its term.
    """

    of: Formula
    lacking: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
