"""Formulas that hold a text to what was retrieved for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from marith.errors import FormulaError
from marith.formula.binding import BARE
from marith.formula.checking import weight_of
from marith.formula.nodes import Formula
from marith.formula.terms import Prompted


def context_aware(
    model: Formula, without: Formula, strength: float = 0.5, speaker: Formula | None = None
) -> Formula:
    """What the context makes likelier becomes likelier still (Shi et al., 2024, equation 3).

    `without` is the model that does not see the context. The paper's (1 + α)·model − α·without
    is the default; another `speaker` is given the same difference, whose weight is zero.
    """
    return (speaker or model) + strength * (model - without)


def faithful_to(
    pattern: str, formula: Formula, strength: float, known: Mapping[str, Formula]
) -> Formula:
    """`formula`, for every unit of its weight with so much of what the context tells the model.

    The context is what the regular expression finds in the messages. The model is `M` as `known`
    has it, or the bare one where that is no prompted model. Raises FormulaError for a pattern that
    is none.
    """
    bare = known[BARE]
    model = bare if isinstance(bare, Prompted) and bare.hide is None else Prompted()
    try:
        without = replace(model, hide=pattern)
    except FormulaError as error:
        raise FormulaError(error.problem.replace("hide", "faithful_to", 1)) from None
    if not strength:
        return formula
    return context_aware(model, without, strength * weight_of(formula, known), formula)
