"""Several models as one."""

from __future__ import annotations

from collections.abc import Sequence

from marith.errors import FormulaError
from marith.formula.tree.factors import Factor
from marith.formula.tree.nodes import Formula, added
from marith.formula.tree.operators import mixture, unscaled
from marith.formula.tree.signals import balance
from marith.recipes.book import recipe


@recipe
def ensemble(*members: Formula, weights: Sequence[Factor] | None = None) -> Formula:
    """Σ wₖ·Pₖ of probabilities, even by default: linear opinion pooling."""
    shares = _shares("ensemble", members, weights)
    return mixture(*(part for pair in zip(shares, members, strict=True) for part in pair))


@recipe
def in_context_mixture(*members: Formula, weights: Sequence[Factor] | None = None) -> Formula:
    """Σ wᵢ·M(demonstrationsᵢ) of logits, even by default; a weight may be below zero.

    Mixtures of in-context learners (Hong et al., 2024, arXiv 2411.02830, equation 3), whose
    weights are found by a search or by gradients. What they add up to acts as 1 / temperature.
    """
    shares = _shares("in_context_mixture", members, weights)
    scaled = [member * share for share, member in zip(shares, members, strict=True)]
    return unscaled(added(*scaled))


@recipe
def cp_fused(first: Formula, second: Formula) -> Formula:
    """b·M₁ + (1 − b)·M₂, b such that neither model's likelihood of the text runs away.

    CP-Fuse (Abad et al., 2024, arXiv 2412.06619): the minimiser of maxᵢ KL(P ‖ Mᵢ) − log Mᵢ(text).
    The authors search a grid for two weights; the minimiser's add up to one, and are solved for.
    """
    share = balance(first, second)
    fused: Formula = share * first + (1 - share) * second
    return fused


def _shares(
    name: str, members: Sequence[Formula], weights: Sequence[Factor] | None
) -> list[Factor]:
    even = [1 / max(1, len(members))] * len(members)
    shares: list[Factor] = [*(even if weights is None else weights)]
    if len(members) < 2 or len(shares) != len(members):
        raise FormulaError(
            f"{name} takes at least two formulas and a weight each, not {len(members)} formulas "
            f"and {len(shares)} weights"
        )
    return shares
