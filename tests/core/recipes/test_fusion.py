"""Several models as one, against pooling, products and a direct search for CP-Fuse's minimum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from support.strategies import speakers

from marith.decoding.evaluate import evaluate
from marith.errors import FormulaError
from marith.formula.tree.operators import union
from marith.formula.tree.terms import Likelihood
from marith.recipes import cp_fused, ensemble, in_context_mixture

M, A, B, _ = speakers(4)
SEEDS = st.integers(0, 10**6)
few = settings(max_examples=12)


@few
@given(seed=SEEDS, weights=st.lists(st.floats(0.05, 3), min_size=3, max_size=3))
def test_an_ensemble_pools_probabilities(paper: Any, seed: int, weights: list[float]) -> None:
    world = paper.world(seed)
    pooled = sum(w * world[term] for w, term in zip(weights, (M, A, B), strict=True))
    paper.agrees(ensemble(M, A, B, weights=weights), world, pooled)
    paper.agrees(ensemble(M, A), world, (world[M] + world[A]) / 2)


@few
@given(seed=SEEDS, k=st.integers(1, 10))
def test_adding_and_subtracting_a_union_of_cuts_leaves_its_mask(
    paper: Any, seed: int, k: int
) -> None:
    world = paper.world(seed)
    best = union(M.top_k(k), A.top_k(k))
    kept = np.zeros(world[M].shape, dtype=bool)
    for masses in (world[M], world[A]):
        kept |= ((-masses).argsort(axis=-1).argsort(axis=-1) < k) & (masses > 0)
    paper.agrees(ensemble(M, A) + best - best, world, np.where(kept, world[M] + world[A], 0.0))


@few
@given(seed=SEEDS, weights=st.lists(st.floats(-2, 2).filter(bool), min_size=3, max_size=3))
def test_learners_in_context_are_a_product_of_experts_not_divided_by_its_weights(
    paper: Any, seed: int, weights: list[float]
) -> None:
    world = paper.world(seed)
    masses = np.ones_like(world[M])
    for weight, term in zip(weights, (M, A, B), strict=True):
        masses = masses * paper.power(world[term], weight)
    paper.agrees(in_context_mixture(M, A, B, weights=weights), world, masses)


def test_learners_without_weights_count_evenly(paper: Any) -> None:
    world = paper.world(6)
    paper.agrees(in_context_mixture(M, A), world, np.sqrt(world[M] * world[A]))


@pytest.mark.parametrize("method", [ensemble, in_context_mixture])
def test_members_and_weights_come_in_pairs_two_at_least(method: Any) -> None:
    for members, weights in (((M,), None), ((), None), ((M, A), [1.0]), ((M, A), [1, 1, 1])):
        with pytest.raises(FormulaError, match=f"{method.__name__} takes at least two formulas"):
            method(*members, weights=weights)
    with pytest.raises(FormulaError, match="is a list of numbers or None, not 3"):
        method(M, A, weights=3)


def worst(masses: Any, models: list[Any], told: list[float]) -> float:
    """max KL(p ‖ q) − L: what CP-Fuse minimises, for two models and the text so far."""
    safe = np.maximum(masses, 1e-300)
    return max(
        float((masses * (np.log(safe) - np.log(model))).sum() - likelihood)
        for model, likelihood in zip(models, told, strict=True)
    )


def fused(paper: Any, seed: int, lead: float) -> tuple[list[Any], list[float], Any]:
    """Two models at one place, the likelihoods of the text so far, and what cp_fused says."""
    world = paper.world(seed, holes=False, vocab=6)
    told = [-7.0 + lead, -7.0]
    observed = {Likelihood(t): np.full((3, 1), x) for t, x in zip((M, A), told, strict=True)}
    full = world.beside(observed)
    masses = evaluate(cp_fused(M, A), full.spoken).double().exp().numpy()[0]
    return [world[M][0], world[A][0]], told, masses


@pytest.mark.parametrize("lead", [-20.0, -1.0, -0.2, 0.0, 0.5, 2.0])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cp_fuse_is_the_minimum_over_all_distributions(paper: Any, seed: int, lead: float) -> None:
    models, told, masses = fused(paper, seed, lead)
    even = np.full(len(masses), 1 / len(masses))
    below = [  # at[-1], which is made small, is above what either model makes of at[:-1]
        {
            "type": "ineq",
            "fun": lambda at, q=q, t=t: at[-1] - worst(at[:-1], [q], [t]),
            "jac": lambda at, q=q: np.append(np.log(q) - np.log(at[:-1]) - 1, 1.0),
        }
        for q, t in zip(models, told, strict=True)
    ]
    found = minimize(
        lambda at: (at[-1], np.append(np.zeros(len(masses)), 1.0)),
        np.append(even, worst(even, models, told)),
        jac=True,
        method="SLSQP",
        bounds=[(1e-9, 1.0)] * len(masses) + [(None, None)],
        constraints=[*below, {"type": "eq", "fun": lambda at: at[:-1].sum() - 1}],
        options={"maxiter": 200, "ftol": 1e-12},
    ).x[:-1]
    best = worst(found / found.sum(), models, told)
    assert worst(masses, models, told) == pytest.approx(best, abs=1e-4)
    np.testing.assert_allclose(masses, found, atol=5e-3)
