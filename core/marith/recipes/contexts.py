"""Formulas that hold a text to what was retrieved for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from marith.errors import FormulaError
from marith.formula.meaning.analysis import weight_of
from marith.formula.meaning.binding import BARE, BARE_MODEL
from marith.formula.tree.factors import Factor, largest, sigmoid, smallest
from marith.formula.tree.nodes import PLAUSIBLE, Formula
from marith.formula.tree.signals import entropy, jsd, margin, renyi
from marith.formula.tree.terms import Prompted
from marith.recipes.book import recipe


@recipe
def context_aware(
    model: Formula, without: Formula, strength: Factor = 0.5, speaker: Formula | None = None
) -> Formula:
    """What the context makes likelier becomes likelier still (Shi et al., 2024).

    Context-aware decoding (arXiv 2305.14739, section 2.2). `without` is the model that does not
    see the context. The paper's (1 + α)·model − α·without is the default; another `speaker` is
    given the same difference, whose weight is zero.
    """
    return (speaker or model) + strength * (model - without)


@recipe
def adaptive_context_aware(
    model: Formula, without: Formula, strength: float = 1.0, floor: float = 0.0
) -> Formula:
    """`context_aware` with α = JSD(P_context ‖ P_without), of at least `floor`, at every token.

    AdaCAD (Wang et al., 2024, arXiv 2409.07394): much where context and memory disagree, nothing
    where they agree. A floor is for long texts, where the authors' code takes 0.3. `strength`
    scales α, which is in bits; their code measures it in nats, which is a strength of log 2.
    """
    divergence = jsd(model, without)
    if not strength:
        return model
    alpha = largest(divergence, floor) if floor else divergence
    return context_aware(model, without, strength * alpha)


@recipe
def cocoa(model: Formula, without: Formula, gamma: float = 1.0) -> Formula:
    """(1 − λ)·M_without + λ·M_context, λ from how sure the context makes the model and how far off.

    CoCoA (Khandelwal et al., 2025, arXiv 2508.17670): λ = σ(γ·(H_without − H_context + D/(1+D) +
    margin)) within [0.1, 0.9], D the Rényi divergence of order one half, the margin that of the
    context's two likeliest tokens. The signals and the bounds are theirs; that the three count
    alike is ours, and their code's penalties and boosts are left out.
    """
    divergence = renyi(without, model)
    gap = entropy(without) - entropy(model)
    signal = gap + divergence / (1 + divergence) + margin(model)
    share = smallest(largest(sigmoid(gamma * signal), 0.1), 0.9)
    blended: Formula = (1 - share) * without + share * model
    return blended


def faithful_to(
    pattern: str, formula: Formula, strength: float, known: Mapping[str, Formula]
) -> Formula:
    """Return `formula` with what the context tells the model, `strength` times its own weight.

    The context is what `pattern`, in RE2's syntax, finds in the messages. The model is `M` as
    `known` has it, or the bare model if `M` is not a prompted model. The answer keeps to tokens
    that `formula` finds plausible: without the context a model is so sure of some tokens that to
    subtract it lifts others that nobody would write. Raises FormulaError for an invalid pattern.
    """
    bare = known[BARE]
    model = bare if isinstance(bare, Prompted) and bare.hide is None else BARE_MODEL
    try:
        without = replace(model, hide=pattern)
    except FormulaError as error:
        raise FormulaError(error.problem.replace("hide", "faithful_to", 1)) from None
    if not strength:
        return formula
    speaker = formula.plausible(PLAUSIBLE)
    return context_aware(model, without, strength * weight_of(formula, known), speaker)
