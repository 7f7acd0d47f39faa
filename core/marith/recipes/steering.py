"""Recipes in which classifiers and rewards guide a model."""

from __future__ import annotations

from dataclasses import replace

from marith.errors import FormulaError
from marith.formula.tree.factors import Factor
from marith.formula.tree.nodes import Formula
from marith.formula.tree.operators import posterior, self_debias, union
from marith.formula.tree.terms import Classifier, Term
from marith.recipes.book import recipe


@recipe
def fudge(
    model: Formula, classifier: Formula, strength: Factor = 1.0, top_k: int | None = 200
) -> Formula:
    """M + λ·log C(x₁..x_t) on the k likeliest tokens of M, where x_t is the candidate.

    A classifier that is written in the call judges k candidates. A classifier that the call gives
    by name keeps the `candidates` of its definition.

    FUDGE (Yang and Klein, 2021, arXiv 2104.05218), with k = 200 and λ = 1; λ = 4 for topics. Critic
    control and NADO are the same formula with other classifiers (the paper of this package,
    appendix, table of previous work).
    """
    # The cut would change the model even at a strength of 0.
    if strength == 0:
        return model
    return _cut(model, top_k) + strength * _judging(classifier, top_k)


@recipe
def reward_guided(
    model: Formula, reward: Formula, strength: Factor = 50.0, top_k: int | None = 20
) -> Formula:
    """M + β·r(x₁..x_t) on the k likeliest tokens of M, where x_t is the candidate.

    r is the output of a classifier on the `scale` of that classifier. How many candidates it judges
    is decided as in `fudge`.

    RAD (Deng and Raffel, 2023, arXiv 2310.09520) has k = 20 and β = 50, and r is a probability.
    ARGS (Khanov et al., 2024, arXiv 2402.01694) has k = 10 and β = 1 (w in the paper), and r is a
    logit.
    """
    return fudge(model, reward, strength, top_k)


@recipe
def gedi(model: Formula, positive: Formula, negative: Formula, strength: Factor = 30.0) -> Formula:
    """M + ω·log P(positive | x₁..x_k), by Bayes' rule from two class-conditional models.

    GeDi (Krause et al., 2021, arXiv 2009.06367), with even priors. The authors' filter, and the
    bias and the scale that they learn, are left out.
    """
    return model if strength == 0 else model + strength * posterior(positive, negative)


@recipe
def self_debiased(
    model: Formula, *biased: Formula, decay: float = 50.0, floor: float = 0.01
) -> Formula:
    """P·max(ε, exp(−λ·max(0, P_b − P))): tokens that a biased prompt makes likelier become rare.

    Self-debiasing (Schick et al., 2021, arXiv 2103.00453), with λ = 50 and ε = 0.01 of the authors'
    code. The paper of this package compares its method with this one at λ = 10, without ε.
    """
    return model if decay == 0 else self_debias(model, *biased, decay=decay, floor=floor)


@recipe
def union_detox(
    model: Formula, toxic: Formula, classifier: Formula | None = None, strength: float = 0.96
) -> Formula:
    """M − λ·union(M_toxic, M), plus (1 − λ)·C if there is a classifier.

    Dekoninck et al. (2024, arXiv 2311.14479, section 5.1). At λ = 0.96 this is M − 24·relu(M_toxic
    − M).
    """
    if not strength:
        return model if classifier is None else model + classifier
    cleaner = model - strength * union(toxic, model)
    # In floating point 1 − 0.96 is 0.040000000000000036, which the formula's text would show.
    return cleaner if classifier is None else cleaner + round(1 - strength, 12) * classifier


def _cut(model: Formula, top_k: int | None) -> Formula:
    return model if top_k is None else model.top_k(top_k)


def _judging(classifier: Formula, top_k: int | None) -> Formula:
    """Return the classifier, set to judge all tokens that the cut leaves."""
    if isinstance(classifier, Term) and not isinstance(classifier, Classifier):
        raise FormulaError(f"only a classifier can steer the model, not {classifier}")
    if top_k is None or not isinstance(classifier, Classifier):
        return classifier
    return replace(classifier, candidates=top_k)
