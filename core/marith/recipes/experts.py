"""Recipes with several models: small models steer a large model, or models mix."""

from __future__ import annotations

from collections.abc import Sequence

from marith.errors import FormulaError
from marith.formula.tree.factors import Factor
from marith.formula.tree.nodes import Formula, added
from marith.formula.tree.operators import mixture, unscaled
from marith.formula.tree.signals import balance
from marith.recipes.book import recipe


@recipe
def dexperts(
    model: Formula,
    expert: Formula,
    anti_expert: Formula,
    strength: Factor = 2.0,
    top_p: float | None = 0.9,
) -> Formula:
    """M + α·(m⁺ − m⁻) on the nucleus of M.

    DExperts (Liu et al., 2021, arXiv 2105.03023). α = 2 is for toxicity, ±3.2 for sentiment. The
    nucleus of 0.9 is from the authors' code.
    """
    # The cut would change the model even at a strength of 0.
    if strength == 0:
        return model
    return (model if top_p is None else model.top_p(top_p)) + strength * (expert - anti_expert)


@recipe
def proxy_tuned(model: Formula, tuned: Formula, base: Formula, strength: Factor = 1.0) -> Formula:
    """M + α·(m_tuned − m_base): what tuning changed in a small model is added to a large model.

    Proxy-tuning (Liu et al., 2024, arXiv 2401.08565, equation 1, where α is 1). With a small model
    that has unlearnt something, this is δ-unlearning (2025).
    """
    return model + strength * (tuned - base)


@recipe
def contrastive(
    expert: Formula,
    amateur: Formula,
    strength: Factor = 0.5,
    alpha: float = 0.1,
    temperature: float = 1.0,
) -> Formula:
    """(1 + β)·E − β·A on tokens with at least α times the probability of E's likeliest token.

    Contrastive decoding (O'Brien and Lewis, 2023, arXiv 2309.09117, equation 1), with the
    plausibility constraint and the amateur's temperature of Li et al. (2023, arXiv 2210.15097).
    """
    # The cut would change the expert even at a strength of 0.
    if strength == 0:
        return expert
    weaker = amateur if temperature == 1.0 else amateur.temperature(temperature)
    return (1 + strength) * expert.min_p(alpha) - strength * weaker


@recipe
def genarm(model: Formula, *rewards: Formula, strengths: Sequence[Factor] | None = None) -> Formula:
    """M + Σ αᵢ·Rᵢ as logits: autoregressive reward models, one for each objective.

    GenARM (Xu et al., 2025, arXiv 2410.08193). αᵢ is 1/β of the paper; by default it is 1 for each
    reward model.
    """
    alphas = [1.0] * len(rewards) if strengths is None else strengths
    if not rewards or len(alphas) != len(rewards):
        raise FormulaError(
            f"genarm takes at least one reward model and a strength for each, not {len(rewards)} "
            f"reward models and {len(alphas)} strengths"
        )
    scaled = [strength * reward for strength, reward in zip(alphas, rewards, strict=True)]
    return unscaled(added(model, *scaled))


@recipe
def unlearned(
    model: Formula, forgetting: Formula, strength: Factor = 1.0, alpha: float | None = 0.1
) -> Formula:
    """M − λ·M_forget as logits, on M's plausible tokens. M_forget knows what M must forget.

    ULD (Ji et al., 2024, arXiv 2406.08607, equation 2). The strength and the cut (tokens with at
    least α times the probability of the likeliest token) are from the authors' configuration.
    """
    # The cut would change the model even at a strength of 0.
    if strength == 0:
        return model
    return unscaled((model if alpha is None else model.min_p(alpha)) - strength * forgetting)


@recipe
def ensemble(*members: Formula, weights: Sequence[Factor] | None = None) -> Formula:
    """Σ wₖ·Pₖ as probabilities, with equal weights by default: linear opinion pooling."""
    shares = _shares("ensemble", members, weights)
    return mixture(*(part for pair in zip(shares, members, strict=True) for part in pair))


@recipe
def in_context_mixture(*members: Formula, weights: Sequence[Factor] | None = None) -> Formula:
    """Σ wᵢ·M(demonstrationsᵢ) as logits, with equal weights by default.

    A weight may be below zero. The sum of the weights acts as 1 / temperature.

    Mixtures of in-context learners (Hong et al., 2024, arXiv 2411.02830, equation 3). The authors
    find weights by a search or by gradients.
    """
    shares = _shares("in_context_mixture", members, weights)
    scaled = [member * share for share, member in zip(shares, members, strict=True)]
    return unscaled(added(*scaled))


@recipe
def cp_fused(first: Formula, second: Formula) -> Formula:
    """b·M₁ + (1 − b)·M₂, where b keeps M₁ and M₂ from reciting memorised text.

    CP-Fuse (Abad et al., 2024, arXiv 2412.06619): the P that minimises maxᵢ [KL(P ‖ Mᵢ) − log
    Mᵢ(text so far)]. The authors search a grid for two weights. The weights of this P add up to
    one, so marith solves an equation for b.
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
            f"{name} takes at least two formulas and a weight for each, not {len(members)} "
            f"formulas and {len(shares)} weights"
        )
    return shares
