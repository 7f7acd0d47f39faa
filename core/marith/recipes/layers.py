"""One model against what its own earlier layers would say."""

from __future__ import annotations

from marith.errors import FormulaError
from marith.formula.tree.factors import largest
from marith.formula.tree.nodes import Formula
from marith.formula.tree.operators import unscaled, where
from marith.formula.tree.signals import jsd
from marith.formula.tree.terms import Prompted
from marith.recipes.book import recipe


@recipe
def dola(model: Formula, *early: Formula | int, alpha: float = 0.1) -> Formula:
    """p_N − p_j of logits on the plausible tokens of p_N, j the layer that differs from it most.

    DoLa (Chuang et al., 2024, arXiv 2309.03883, section 2). `early` are early exits of the model; a
    number is that of the bare model, `prompted(exit_layer=…)`, and 0 the word embedding. For a
    model of 32 layers the authors take the even ones from 16 for TruthfulQA, up to 14 for FACTOR.
    """
    if not early:
        raise FormulaError("dola takes at least one early layer")
    exits = [Prompted(exit_layer=layer) if isinstance(layer, int) else layer for layer in early]
    return unscaled(model.plausible(alpha) - _furthest(model, exits))


def _furthest(model: Formula, exits: list[Formula]) -> Formula:
    """The exit of the largest divergence from the model, the first of equals."""
    divergences = [jsd(model, layer) for layer in exits]
    chosen = exits[-1]
    for i in reversed(range(len(exits) - 1)):
        rest = divergences[i + 1] if i + 2 == len(exits) else largest(*divergences[i + 1 :])
        chosen = where(divergences[i] >= rest, exits[i], chosen)
    return chosen
