"""Prompts that pull and push, against the equations of their papers."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.strategies import speakers

from marith.formula.tree.signals import max_prob
from marith.recipes import cfg, cognac, negative_prompt, preadd, system_strength
from marith.recipes.prompts import guided_away

M, A, B, N = speakers(4)
SEEDS = st.integers(0, 10**6)
few = settings(max_examples=12)


@few
@given(seed=SEEDS, strength=st.floats(-3, 3).filter(lambda s: abs(s) > 1e-3))
def test_preadd_raises_what_the_prefix_changes_to_a_power(
    paper: Any, seed: int, strength: float
) -> None:
    world = paper.world(seed)
    model, prefixed = world[M], world[A]
    changed = paper.power(prefixed, strength) * paper.power(model, -strength)
    paper.agrees(preadd(M, A, strength), world, model * changed)


@few
@given(seed=SEEDS, gamma=st.floats(0.01, 4).filter(lambda gamma: gamma != 1))
def test_guidance_is_the_ratio_of_two_powers(paper: Any, seed: int, gamma: float) -> None:
    world = paper.world(seed)
    conditional, unconditional = world[M], world[A]
    masses = paper.power(conditional, gamma) * paper.power(unconditional, 1 - gamma)
    paper.agrees(cfg(M, A, gamma), world, masses)
    paper.agrees(negative_prompt(M, A, gamma), world, masses)


@few
@given(seed=SEEDS, gamma=st.floats(0.01, 4).filter(lambda gamma: gamma != 1), times=st.floats(1, 2))
def test_guidance_away_divides_a_formula_by_its_weight_in_each_context(
    paper: Any, seed: int, gamma: float, times: float
) -> None:
    world = paper.world(seed)
    for factor, number in ((0.5, 0.5), (max_prob(B), world[B].max(axis=-1, keepdims=True))):
        weight = times + number
        formula = paper.power(world[M], times / weight) * paper.power(world[A], number / weight)
        masses = paper.power(formula, gamma) * paper.power(world[N], 1 - gamma)
        paper.agrees(guided_away(N, times * M + factor * A, gamma, {}), world, masses)


@few
@given(seed=SEEDS, alpha=st.floats(0.01, 4))
def test_a_system_prompt_of_a_strength_is_a_step_between_logits(
    paper: Any, seed: int, alpha: float
) -> None:
    world = paper.world(seed, holes=False)
    default, target = np.log(world[M]), np.log(world[A])
    step = np.exp(default + alpha * (target - default))
    paper.agrees(system_strength(M, A, alpha), world, step)


@few
@given(seed=SEEDS, topical=st.floats(0.01, 3), barred=st.floats(0.01, 3))
def test_cognac_is_the_minimiser_of_its_weighted_divergences(
    paper: Any, seed: int, topical: float, barred: float
) -> None:
    assume(1 + topical - barred > 0.3)
    world = paper.world(seed)
    product = (
        world[M] * paper.power(world[A], topical) * paper.power(world[B], -barred)
    )  # theorem 1 before its division by the sum of the factors
    masses = paper.power(product, 1 / (1 + topical - barred))
    paper.agrees(cognac(M, A, B, topical, barred), world, masses)
