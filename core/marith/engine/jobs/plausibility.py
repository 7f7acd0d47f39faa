"""How plausible a generated text is to the terms of its formula."""

from __future__ import annotations

import logging
import math
from functools import lru_cache

from marith.decoding.blocks import ComposedRow
from marith.engine.threads.workers import log
from marith.errors import shown
from marith.formula.tree.nodes import PLAUSIBLE, Formula
from marith.formula.tree.printing import without_texts
from marith.formula.tree.terms import Prompted, Term
from marith.speculation.execution_plan import ExecutionPlan
from marith.tensor_rows import Row

_log = logging.getLogger(__name__)
_LEAST = math.log(PLAUSIBLE)
# A warning is logged if the share of implausible tokens is larger than this. At temperature 1, one
# in five of a model's own tokens is implausible.
_MANY = 0.5
# Texts with fewer tokens than this are not judged.
_ENOUGH = 8


class Plausibility:
    """Counts the tokens of one text that are implausible to all prompted terms of `formula`.

    Only rows in main memory are examined, because examining rows on a GPU would wait for the GPU.
    """

    def __init__(self, formula: Formula) -> None:
        self._formula = formula
        self._found: dict[int, bool] = {}

    @classmethod
    def of(cls, plan: ExecutionPlan) -> Plausibility | None:
        """Return a counter, or None if the formula is one term: its texts are plausible to it."""
        return None if isinstance(plan.whole, Term) else cls(plan.whole)

    def take(self, place: int, token: int, composed: ComposedRow) -> None:
        """Examine the final token at a place, with the rows of the terms there."""
        rows = [row for term, row in composed.rows.items() if isinstance(term, Prompted)]
        if composed.formula == self._formula and rows and rows[0][0].is_cpu:
            self._found[place] = not any(_is_plausible(row, token) for row in rows)

    def share(self, end: int) -> float:
        """Return the share of implausible tokens before a place. A large share is logged once."""
        found = [implausible for place, implausible in self._found.items() if place < end]
        share = sum(found) / len(found) if found else 0.0
        if share > _MANY and len(found) >= _ENOUGH:
            _warn_once(self._formula)
        return share


def _is_plausible(row: Row, token: int) -> bool:
    tensor, index = row
    logprobs = tensor[index].numpy()
    return bool(logprobs[token] >= _LEAST or logprobs[token] >= logprobs.max() + _LEAST)


# The cache ensures that the warning about a formula is logged only once.
@lru_cache(maxsize=64)
def _warn_once(formula: Formula) -> None:
    log(
        _log,
        logging.WARNING,
        "most tokens of a text are implausible to every term of %s: its factors may be too large, "
        "see marith.explain",
        shown(without_texts(formula)),
    )
