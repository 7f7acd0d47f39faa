"""The positions of a text that are composed, and their rows until a token is final."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Term
from marith.tensor_rows import Row


@dataclass(slots=True)
class Block:
    """Positions at which one formula is composed, from the rows of its `terms`.

    `rows` has, for each of these terms (and for other terms that were evaluated), one row [vocab]
    for each position. `composed` has the composed rows, once they are computed.
    """

    formula: Formula
    terms: Sequence[Term]
    rows: Mapping[Term, Sequence[Row]]
    count: int
    composed: Sequence[Row] = ()


@dataclass(slots=True)
class ComposedRow:
    """A formula that was composed at one place: its `row` [vocab], and the row of each term."""

    formula: Formula
    row: Row
    rows: Mapping[Term, Row]


class RowsByPlace:
    """Keeps the composed row of each place until the token there is final. For one thread.

    Only rows of `formula` are kept: not the rows of partial formulas, from which drafts are drawn.
    """

    def __init__(self, formula: Formula) -> None:
        self._formula = formula
        self._kept: dict[int, ComposedRow] = {}

    def record(self, block: Block, places: Sequence[int], composed: Sequence[Row]) -> None:
        """Keep the `composed` rows of a block, one for each place, and replace earlier rows."""
        if block.formula != self._formula:
            return
        for at, (place, row) in enumerate(zip(places, composed, strict=True)):
            rows = {term: own[at] for term, own in block.rows.items()}
            self._kept[place] = ComposedRow(block.formula, row, rows)

    def pop(self, place: int) -> ComposedRow:
        """Return the composed row at the place of a final token, and drop it."""
        return self._kept.pop(place)
