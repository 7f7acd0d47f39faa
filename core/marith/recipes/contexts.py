"""Formulas that hold a text to what was retrieved for it."""

from __future__ import annotations

from marith.formula.nodes import Formula


def context_aware(
    model: Formula, without: Formula, strength: float = 0.5, speaker: Formula | None = None
) -> Formula:
    """What the context makes likelier becomes likelier still (Shi et al., 2024, equation 3).

    `without` is the model that does not see the context. The paper's (1 + α)·model − α·without
    is the default; another `speaker` is given the same difference, whose weight is zero.
    """
    return (speaker or model) + strength * (model - without)
