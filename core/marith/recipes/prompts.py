"""Recipes that need only one model (prompts, early layers), and recipes that switch models."""

from __future__ import annotations

from collections.abc import Mapping

from marith.errors import FormulaError
from marith.formula.meaning.weights import weigh
from marith.formula.tree.factors import Factor, maximum
from marith.formula.tree.nodes import Formula
from marith.formula.tree.operators import agreed, mixture, union, unscaled, where
from marith.formula.tree.signals import first, jsd, max_prob
from marith.formula.tree.terms import Prompted
from marith.recipes.book import recipe


@recipe
def preadd(model: Formula, prefixed: Formula, strength: Factor = -1.0) -> Formula:
    """M + s·(M_prefix − M): away from a prefix if s < 0, towards it if s > 0.

    PREADD (Pei et al., 2023, arXiv 2307.03214). The authors use −1 against toxicity and bias, and
    +2 for sentiment. The paper of this package writes M − 0.6·M_toxic.
    """
    return model + strength * (prefixed - model)


@recipe
def cfg(conditional: Formula, unconditional: Formula, strength: Factor = 1.5) -> Formula:
    """U + γ·(M_c − U): classifier-free guidance. γ = 1 is the conditional model.

    Sanchez et al. (2023, arXiv 2306.17806, equation 7).
    """
    if strength == 1:
        return conditional
    return unconditional + strength * (conditional - unconditional)


@recipe
def negative_prompt(model: Formula, negative: Formula, strength: Factor = 1.5) -> Formula:
    """N + γ·(M − N): guidance away from a negative prompt N. γ = 1 is the model.

    Sanchez et al. (2023, arXiv 2306.17806, equation 5).
    """
    return cfg(model, negative, strength)


def guided_away(
    negative: Formula, formula: Formula, strength: float, known: Mapping[str, Formula]
) -> Formula:
    """Return the `negative_prompt` of a formula of any weight, which is divided by its weight.

    `known` has the meanings of the names in `formula`.
    """
    weight = weigh(formula, known).constant
    if weight is None:
        # No number is the weight in every context. The union is the same distribution, of weight 1.
        return negative_prompt(union(formula, formula), negative, strength)
    return negative_prompt(formula * (1 / weight), negative, strength)


@recipe
def system_strength(default: Formula, target: Formula, strength: Factor = 1.5) -> Formula:
    """M_default + α·(M_target − M_default): a system prompt at a chosen strength.

    α = 1 is the target, and α = 0 is the default prompt.

    From arXiv 2601.06403 (2026), which uses α above 1. The default of 1.5 is ours.
    """
    return preadd(default, target, strength)


@recipe
def cognac(
    model: Formula, topic: Formula, constraint: Formula, topical: Factor = 1.0, barred: Factor = 0.5
) -> Formula:
    """M + λ₁·M_topic − λ₂·M_constraint: towards a topic, and away from what a constraint forbids.

    CognacGen (Chen et al., 2022, arXiv 2212.10466), as the paper of this package writes it
    (appendix, table of previous work). The strengths are ours.
    """
    return model + topical * topic - barred * constraint


@recipe
def dola(model: Formula, *early: Formula | int, alpha: float = 0.1) -> Formula:
    """p_N − p_j as logits, on the plausible tokens of p_N.

    p_N is the distribution of the whole model, and p_j the distribution of the early exit that
    diverges most from p_N. `early` are early exits of the model. A number k means an early exit of
    the bare model, `prompted(exit_layer=k)`; 0 is the word embedding.

    DoLa (Chuang et al., 2024, arXiv 2309.03883, section 2). For a model of 32 layers the authors
    use the even layers from 16 on for TruthfulQA, and the even layers up to 14 for FACTOR.
    """
    if not early:
        raise FormulaError("dola takes at least one early layer")
    exits = [Prompted(exit_layer=layer) if isinstance(layer, int) else layer for layer in early]
    return unscaled(model.min_p(alpha) - _furthest(model, exits))


def _furthest(model: Formula, exits: list[Formula]) -> Formula:
    """Return the exit that diverges most from the model, or the first of several such exits."""
    divergences = [jsd(model, layer) for layer in exits]
    # The loop goes from the last exit to the first. An exit replaces the chosen exit if no later
    # exit diverges more.
    chosen = exits[-1]
    for i in reversed(range(len(exits) - 1)):
        rest = divergences[i + 1] if i + 2 == len(exits) else maximum(*divergences[i + 1 :])
        chosen = where(divergences[i] >= rest, exits[i], chosen)
    return chosen


@recipe
def nudged(model: Formula, nudger: Formula, threshold: float = 0.3) -> Formula:
    """The nudger where the model is unsure, and the model elsewhere.

    The model is unsure where the probability of its likeliest token is below the threshold.

    Nudging (Fei et al., 2024, arXiv 2410.09300), with the threshold of the authors' code. Their
    nudger writes a whole word at a time; here the choice is made at every token.
    """
    return model if threshold == 0 else where(max_prob(model) < threshold, nudger, model)


@recipe
def safe_decoded(
    model: Formula, expert: Formula, strength: float = 3.0, tokens: int = 2, common: int = 5
) -> Formula:
    """P + α·(P_expert − P) at the first positions, on tokens that both models rank high.

    After the first `tokens` positions, the result is the model.

    SafeDecoding (Xu et al., 2024, arXiv 2402.08983), in probabilities. The defaults are from the
    authors' command line.
    """
    if strength == 0:
        return model
    shifted = mixture(1 - strength, model, strength, expert) + agreed(model, expert, count=common)
    return where(first(tokens), shifted, model)
