"""Positions of one text at which a formula is composed, with the rows of its terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Term
from marith.tensor_rows import Row


@dataclass(slots=True)
class Block:
    """Positions at which one formula is composed, from the rows of its `terms`.

    `rows` has one row [vocab] for each position of each of these terms, and of other terms that
    were evaluated.
    """

    formula: Formula
    terms: Sequence[Term]
    rows: Mapping[Term, Sequence[Row]]
    count: int
