"""An upper bound on how much a formula enlarges errors in its terms' log-probabilities."""

from __future__ import annotations

import math

from marith.formula.meaning.weights import Weights
from marith.formula.tree.nodes import Cut, Formula, Scaled, Sum, Tempered, children
from marith.formula.tree.operators import (
    Agreed,
    Posterior,
    Relu,
    SelfDebias,
    Supersede,
    Unscaled,
)
from marith.formula.tree.terms import Classifier


def amplification(formula: Formula) -> float:
    """Return an upper bound on the factor by which a formula enlarges an error of a term.

    The names in the formula must have been replaced by terms. The error is in the term's
    log-probabilities. For `M - 0.96*union(toxic, M)` the bound is (1 + 0.96) / 0.04 = 49; for a
    term it is 1. A factor that depends on the context counts as the largest number in its range, or
    as 1 if the range has no end.
    """
    return _relative(formula, Weights())


def _relative(formula: Formula, weights: Weights) -> float:
    """Return the upper bound for a formula's score, divided by its weight if that is above zero."""
    least = weights.of(formula).least
    return _enlarged(formula, weights) / (least if least > 0 else 1.0)


def _enlarged(formula: Formula, weights: Weights) -> float:
    """Return the upper bound for a formula's score, before the division by its weight."""
    match formula:
        case Scaled(factor, of):
            largest = max(map(abs, weights.factor(factor).range))
            return (largest if math.isfinite(largest) else 1.0) * _enlarged(of, weights)
        case Sum(members):
            return sum(_enlarged(member, weights) for member in members)
        case Cut(of=of) | Relu(of=of) | Supersede(of=of) | Unscaled(of=of):
            return _enlarged(of, weights)
        case Tempered(of, at):
            return _enlarged(of, weights) / at
        case Classifier() | Agreed():
            return 0.0
    worst = max((_relative(child, weights) for child in children(formula)), default=1.0)
    match formula:
        case SelfDebias(decay=decay):
            # log P − λ·max(0, P_b − P) has an error in log P, and λ times an error in P_b and in P.
            return (1 + 2 * decay) * worst
        case Posterior():
            # A posterior follows from differences of two mean log-likelihoods, each with an error.
            return 2 * worst
    return worst
