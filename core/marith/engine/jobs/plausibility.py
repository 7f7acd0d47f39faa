"""Which tokens of a text no term of its formula would have written."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from functools import lru_cache

from marith.engine.threads.workers import log
from marith.errors import shown
from marith.formula.tree.nodes import PLAUSIBLE, Formula
from marith.formula.tree.printing import without_texts
from marith.formula.tree.terms import Prompted, Term
from marith.speculation.execution_plan import ExecutionPlan
from marith.speculation.window import Block
from marith.tensor_rows import Row

_log = logging.getLogger(__name__)
_LEAST = math.log(PLAUSIBLE)
_MANY = 0.5  # of the tokens: at temperature 1 a model itself writes one in five
_ENOUGH = 8  # tokens to judge a text by


class Plausibility:
    """Counts the tokens of one text that no prompted term of `formula` finds plausible.

    Only of rows in the processor's memory: elsewhere each look would wait for the device.
    """

    def __init__(self, formula: Formula) -> None:
        self._formula = formula
        self._rows: dict[int, list[Row]] = {}  # of each term, at places that are not final yet
        self._found: dict[int, bool] = {}

    @classmethod
    def of(cls, plan: ExecutionPlan) -> Plausibility | None:
        """None for a formula that is one term: it writes what that term finds plausible."""
        return None if isinstance(plan.whole, Term) else cls(plan.whole)

    def record(self, blocks: Sequence[Block], places: Sequence[int]) -> None:
        """Keep the rows of the places where the whole formula was composed."""
        positions = [(block, at) for block in blocks for at in range(block.count)]
        for place, (block, at) in zip(places, positions, strict=True):
            if block.formula == self._formula:
                self._rows[place] = [
                    rows[at] for term, rows in block.rows.items() if isinstance(term, Prompted)
                ]

    def take(self, place: int, token: int) -> None:
        """Look at the final token at a place, and drop its rows."""
        rows = self._rows.pop(place, None)
        if rows and rows[0][0].is_cpu:
            self._found[place] = not any(_is_plausible(row, token) for row in rows)

    def share(self, end: int) -> float:
        """Return the share of implausible tokens before a place; log it once where it is large."""
        found = [implausible for place, implausible in self._found.items() if place < end]
        share = sum(found) / len(found) if found else 0.0
        if share > _MANY and len(found) >= _ENOUGH:
            _warn_once(self._formula)
        return share


def _is_plausible(row: Row, token: int) -> bool:
    tensor, index = row
    logprobs = tensor[index].numpy()
    return bool(logprobs[token] >= _LEAST or logprobs[token] >= logprobs.max() + _LEAST)


@lru_cache(maxsize=64)  # of formulas: each is named once
def _warn_once(formula: Formula) -> None:
    log(
        _log,
        logging.WARNING,
        "most tokens of a text are implausible to every term of %s: its factors may be too large, "
        "see marith.explain",
        shown(without_texts(formula)),
    )
