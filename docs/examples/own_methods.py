"""Write two published methods as formulas: a recipe with its own factor, and a node."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

import marith
from marith import Formula
from marith.decoding.evaluate import Evaluation, Value, both, factor_value, node_value
from marith.formula.meaning.checking import problem, weightless
from marith.formula.meaning.polynomials import Range, Weight
from marith.formula.meaning.weights import Weights, factor_range, node_weight
from marith.formula.tree.factors import Varying
from marith.formula.tree.printing import Piece, call, pieces

# -- EDT -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Power(Varying):
    """A number above zero to the power of a factor, at most a million."""

    base: float
    exponent: Varying


def edt(model: Formula, theta: float = 0.1, temperature: float = 1.0) -> Formula:
    """Return P^(1/T) with T = T₀ · 0.8^(θ / entropy): T is lower if the model is surer.

    Entropy-based dynamic temperature sampling (Zhang et al., 2024, arXiv 2403.14541).
    """
    power = Power(0.8, -theta / marith.maximum(marith.entropy(model), 1e-6))
    return marith.unscaled(power / temperature * model)


@pieces.register
def print_power(factor: Power) -> list[Piece]:
    return call("power", factor.base, factor.exponent)


@factor_range.register
def bound_power(_factor: Power, _weights: Weights) -> Range:
    return 0.0, 1e6


@factor_value.register
def compute_power(factor: Power, at: Evaluation) -> Tensor:
    return (factor.base ** torch.as_tensor(at.factor(factor.exponent))).clamp(max=1e6)


marith.define("power", Power)
marith.define("edt", edt)

# -- Top-nσ ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class TopNSigma(Formula):
    """The tokens with logits l ≥ max l − n·σ(l): top-nσ (Tang et al., 2024, arXiv 2411.07641)."""

    of: Formula
    n: float


@pieces.register
def print_top_n_sigma(node: TopNSigma) -> list[Piece]:
    return call("top_n_sigma", node.of, float(node.n))


@node_weight.register
def weigh_top_n_sigma(node: TopNSigma, weights: Weights) -> Weight:
    return weights.of(node.of)


@problem.register
def check_top_n_sigma(node: TopNSigma, weights: Weights) -> str:
    if node.n <= 0:
        return f"n of top_n_sigma is a number above 0, not {node.n}"
    return weightless((node.of,), weights)


@node_value.register
def evaluate_top_n_sigma(node: TopNSigma, at: Evaluation) -> Value:
    of = at.value(node.of)
    logits = of.logprobs()  # logits, up to one number a row
    possible = logits.masked_fill(logits == -torch.inf, torch.nan)
    sigma = (possible - possible.nanmean(-1, True)).square().nanmean(-1, True).sqrt()
    kept = logits >= logits.amax(-1, True) - node.n * sigma
    return Value(of.score, of.weight, both(of.allowed, kept))


marith.define("top_n_sigma", TopNSigma)


def main() -> None:
    terms = {"kind": "You are kind and polite."}
    with marith.Engine.load("pocket") as engine:
        for formula in ("edt(kind, 0.2)", "top_n_sigma(kind, 1) + 0.5*(kind - M)"):
            print(marith.explain(formula), end="\n\n")
            out = engine.generate("Can you help me?", formula, terms, max_tokens=24, seed=1)
            print(f"{out.text!r}\n")


if __name__ == "__main__":
    main()
