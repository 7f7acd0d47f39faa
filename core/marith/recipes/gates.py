"""Gates that choose between models at every token."""

from __future__ import annotations

from marith.formula.tree.nodes import Formula
from marith.formula.tree.operators import agreed, mixture, where
from marith.formula.tree.signals import first, peak
from marith.recipes.book import recipe


@recipe
def nudged(model: Formula, nudger: Formula, threshold: float = 0.3) -> Formula:
    """The nudger where the model's likeliest token is below the threshold, else the model.

    Nudging (Fei et al., 2024, arXiv 2410.09300), whose nudging model writes a whole word at a
    time; here the gate chooses at every token. The threshold is that of the authors' code.
    """
    return model if threshold == 0 else where(peak(model) < threshold, nudger, model)


@recipe
def safe_decoded(
    model: Formula, expert: Formula, strength: float = 3.0, tokens: int = 2, common: int = 5
) -> Formula:
    """P + α·(P_expert − P) for the first tokens, on what is likeliest to both; then the model.

    SafeDecoding (Xu et al., 2024, arXiv 2402.08983), in probabilities; the defaults are those of
    the authors' command line.
    """
    if strength == 0:
        return model
    shifted = mixture(1 - strength, model, strength, expert) + agreed(model, expert, count=common)
    return where(first(tokens), shifted, model)
