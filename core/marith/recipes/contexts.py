"""Recipes that make an answer follow the text that was retrieved for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from marith.errors import FormulaError
from marith.formula.meaning.binding import BARE, BARE_MODEL
from marith.formula.meaning.weights import weight_of
from marith.formula.tree.factors import Factor, maximum, minimum, sigmoid
from marith.formula.tree.nodes import PLAUSIBLE, Formula
from marith.formula.tree.signals import entropy, jsd, margin, renyi
from marith.formula.tree.terms import Prompted
from marith.recipes.book import recipe


@recipe
def context_aware(
    model: Formula, without: Formula, strength: Factor = 0.5, speaker: Formula | None = None
) -> Formula:
    """(1 + α)·model − α·without: what the context makes likelier becomes likelier still.

    `without` is the model that does not see the context. If there is a `speaker`, the result is
    speaker + α·(model − without). If `model` and `without` have the same weight, their difference
    has weight 0, and the result has the weight of `speaker`.

    Context-aware decoding (Shi et al., 2024, arXiv 2305.14739, section 2.2).
    """
    return (speaker or model) + strength * (model - without)


@recipe
def adaptive_context_aware(
    model: Formula, without: Formula, strength: float = 1.0, floor: float = 0.0
) -> Formula:
    """`context_aware` with α = JSD(P_context ‖ P_without), at least `floor`, at every token.

    α is large if context and memory disagree, and 0 if they agree. `strength` multiplies α, which
    is measured in bits.

    AdaCAD (Wang et al., 2024, arXiv 2409.07394). The authors' code has a floor of 0.3 for long
    texts. It measures α in nats; to do the same, set `strength` to log 2.
    """
    divergence = jsd(model, without)
    if not strength:
        return model
    alpha = maximum(divergence, floor) if floor else divergence
    return context_aware(model, without, strength * alpha)


@recipe
def cocoa(model: Formula, without: Formula, gamma: float = 1.0) -> Formula:
    """(1 − λ)·M_without + λ·M_context, where λ comes from entropies, a divergence and a margin.

    λ = σ(γ·(H_without − H_context + D/(1+D) + margin)) within [0.1, 0.9]. D is the Rényi divergence
    of order one half. The margin is the difference between the probabilities of M_context's two
    likeliest tokens.

    CoCoA (Khandelwal et al., 2025, arXiv 2508.17670). The signals and the limits of λ are the
    authors'; the equal weights of the three signals are ours. The penalties and boosts of their
    code are left out.
    """
    divergence = renyi(without, model)
    gap = entropy(without) - entropy(model)
    signal = gap + divergence / (1 + divergence) + margin(model)
    share = minimum(maximum(sigmoid(gamma * signal), 0.1), 0.9)
    blended: Formula = (1 - share) * without + share * model
    return blended


def faithful_to(
    pattern: str, formula: Formula, strength: float, known: Mapping[str, Formula]
) -> Formula:
    """Return `formula` plus the effect of the context on the model.

    The effect is multiplied by `strength` times the weight of `formula`. The context is the part of
    the messages that `pattern`, in RE2's syntax, matches. The model is the meaning of `M` in
    `known`. If this meaning is not a prompted model, or already hides text, the model is
    `prompted()`. The answer keeps to tokens that `formula` finds plausible. Without this cut, the
    subtraction would lift absurd tokens: those to which the model without the context gives almost
    no probability. Raises FormulaError for an invalid pattern.
    """
    bare = known[BARE]
    model = bare if isinstance(bare, Prompted) and bare.hide is None else BARE_MODEL
    try:
        without = replace(model, hide=pattern)
    except FormulaError as error:
        raise FormulaError(error.problem.replace("hide", "faithful_to", 1)) from None
    if not strength:
        return formula
    speaker = formula.min_p(PLAUSIBLE)
    return context_aware(model, without, strength * weight_of(formula, known), speaker)
