"""One model, and prompts that pull it or push it away."""

from __future__ import annotations

from marith.formula.tree.factors import Factor
from marith.formula.tree.nodes import Formula
from marith.recipes.book import recipe


@recipe
def preadd(model: Formula, prefixed: Formula, strength: Factor = -1.0) -> Formula:
    """M + s·(M_prefix − M): away from a prefix with s < 0, towards it with s > 0.

    PREADD (Pei et al., 2023, arXiv 2307.03214). The authors take −1 against toxicity and bias, +2
    for sentiment; the paper of this package writes M − 0.6·M_toxic.
    """
    return model + strength * (prefixed - model)


@recipe
def cfg(conditional: Formula, unconditional: Formula, strength: Factor = 1.5) -> Formula:
    """U + γ·(M_c − U): classifier-free guidance; γ = 1 is the conditional model.

    Sanchez et al. (2023, arXiv 2306.17806, equation 7).
    """
    if strength == 1:
        return conditional
    return unconditional + strength * (conditional - unconditional)


@recipe
def negative_prompt(model: Formula, negative: Formula, strength: Factor = 1.5) -> Formula:
    """N + γ·(M − N): guidance away from what a negative prompt N would say; γ = 1 is the model.

    Sanchez et al. (2023, arXiv 2306.17806, equation 5).
    """
    return cfg(model, negative, strength)


@recipe
def system_strength(default: Formula, target: Formula, strength: Factor = 1.5) -> Formula:
    """M_default + α·(M_target − M_default): a system prompt of exactly so much strength.

    arXiv 2601.06403 (2026), with α above 1; α = 1 is the target, 0 the default prompt. The 1.5 is
    ours.
    """
    return preadd(default, target, strength)


@recipe
def cognac(
    model: Formula, topic: Formula, constraint: Formula, topical: Factor = 1.0, barred: Factor = 0.5
) -> Formula:
    """M + λ₁·M_topic − λ₂·M_constraint: on a topic, and not about that.

    CognacGen (Chen et al., 2022, arXiv 2212.10466), as the paper of this package writes it
    (appendix, table of previous work). The strengths are ours.
    """
    return model + topical * topic - barred * constraint
