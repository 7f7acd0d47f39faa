"""How plausible a generated text is to the terms of its formula."""

from __future__ import annotations

import logging
from functools import lru_cache

from marith.decoding.blocks import Block
from marith.engine.threads.workers import log
from marith.errors import shown
from marith.formula.tree.nodes import Formula
from marith.formula.tree.printing import without_texts
from marith.formula.tree.terms import Prompted, Term
from marith.speculation.execution_plan import ExecutionPlan
from marith.tensor_rows import Row

_log = logging.getLogger(__name__)
# A warning is logged if the share of implausible tokens is larger than this. At temperature 1, one
# in five of a model's own tokens is implausible.
_MANY = 0.5
# Texts with fewer tokens than this are not judged.
_ENOUGH = 8


class Plausibility:
    """Counts the tokens of one text that are implausible to all prompted terms of its formula."""

    def __init__(self, plan: ExecutionPlan, asked: Formula) -> None:
        self._formula, self._asked = plan.whole, asked
        self._terms = [term for term in plan.leaves(plan.whole) if isinstance(term, Prompted)]
        self._found: dict[int, bool] = {}

    @classmethod
    def of(cls, plan: ExecutionPlan, asked: Formula) -> Plausibility | None:
        """Return a counter, or None if the formula is one term: its texts are plausible to it.

        `asked` is the formula as the caller wrote it, for a warning.
        """
        return None if isinstance(plan.whole, Term) else cls(plan, asked)

    def compared(self, block: Block) -> list[list[Row]]:
        """Return the rows with which a verification compares its tokens, for each position.

        Only tokens of the whole formula are compared.
        """
        terms = self._terms if block.formula == self._formula else ()
        rows = [block.rows[term] for term in terms]
        return [[own[at] for own in rows] for at in range(block.count)]

    def note(self, place: int, plausible: bool | None) -> None:
        """Note whether the token at a place is plausible. None is a token that does not count."""
        if plausible is None:
            self._found.pop(place, None)
        else:
            self._found[place] = not plausible

    def share(self, end: int) -> float:
        """Return the share of implausible tokens before a place. A large share is logged once."""
        found = [implausible for place, implausible in self._found.items() if place < end]
        share = sum(found) / len(found) if found else 0.0
        if share > _MANY and len(found) >= _ENOUGH:
            _warn_once(self._asked)
        return share


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
