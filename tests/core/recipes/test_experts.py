"""Small models that steer a large one, against the equations of their papers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import speakers

from marith.errors import FormulaError
from marith.recipes import contrastive, dexperts, genarm, proxy_tuned, unlearned

M, A, B, C = speakers(4)
SEEDS = st.integers(0, 10**6)
STRENGTHS = st.floats(0.01, 3)
few = settings(max_examples=12)


def nucleus(row: Any, p: float) -> list[int]:
    """The fewest likeliest tokens that reach p, one after the other."""
    kept: list[int] = []
    for token in sorted(range(len(row)), key=lambda token: -row[token]):
        if sum(row[t] for t in kept) >= p or row[token] == 0:
            break
        kept.append(token)
    return kept


def on(tokens: list[list[int]], masses: Any) -> Any:
    """The masses of these tokens alone, at each place."""
    kept = np.zeros_like(masses)
    for place, own in enumerate(tokens):
        kept[place, own] = masses[place, own]
    return kept


def plausible(masses: Any, alpha: float) -> list[list[int]]:
    return [[t for t, mass in enumerate(row) if mass >= alpha * max(row)] for row in masses]


@few
@given(seed=SEEDS, alpha=STRENGTHS, p=st.sampled_from([0.5, 0.9, None]))
def test_dexperts_adds_the_experts_difference_on_the_nucleus_of_the_base(
    paper: Any, seed: int, alpha: float, p: float | None
) -> None:
    world = paper.world(seed, holes=False)
    base, expert, anti = world[M], world[A], world[B]
    logits = np.log(base) + alpha * (np.log(expert) - np.log(anti))
    masses = np.exp(logits)
    if p is not None:
        masses = on([nucleus(row, p) for row in base], masses)
    paper.agrees(dexperts(M, A, B, alpha, p), world, masses)


@few
@given(seed=SEEDS, alpha=STRENGTHS)
def test_proxy_tuning_multiplies_by_what_tuning_did(paper: Any, seed: int, alpha: float) -> None:
    world = paper.world(seed)
    tuning = paper.power(world[A], alpha) * paper.power(world[B], -alpha)
    paper.agrees(proxy_tuned(M, A, B, alpha), world, world[M] * tuning)


@few
@given(
    seed=SEEDS,
    beta=STRENGTHS,
    alpha=st.sampled_from([0.05, 0.1, 0.5]),
    temperature=st.sampled_from([0.5, 1.0]),
)
def test_contrastive_decoding_rewards_what_the_amateur_does_not_know(
    paper: Any, seed: int, beta: float, alpha: float, temperature: float
) -> None:
    world = paper.world(seed)
    expert, amateur = world[M], paper.power(world[A], 1 / temperature)
    ratio = expert * paper.power(amateur, -1)
    masses = on(plausible(expert, alpha), expert * paper.power(ratio, beta))
    if (masses.sum(axis=-1) == 0).any():
        return  # the amateur cannot say what is plausible; the formula refuses, as elsewhere
    paper.agrees(contrastive(M, A, beta, alpha, temperature), world, masses)


@few
@given(seed=SEEDS, strengths=st.lists(st.floats(-2, 2).filter(bool), min_size=1, max_size=3))
def test_genarm_multiplies_by_every_reward_to_its_power(
    paper: Any, seed: int, strengths: list[float]
) -> None:
    world = paper.world(seed)
    masses = world[M]
    for reward, alpha in zip((A, B, C), strengths, strict=False):
        masses = masses * paper.power(world[reward], alpha)
    given_ = (A, B, C)[: len(strengths)]
    paper.agrees(genarm(M, *given_, strengths=strengths), world, masses)


def test_a_genarm_without_strengths_takes_one_each(paper: Any) -> None:
    world = paper.world(8)
    paper.agrees(genarm(M, A, B), world, world[M] * world[A] * world[B])


@few
@given(seed=SEEDS, strength=STRENGTHS, alpha=st.sampled_from([0.1, 0.5, None]))
def test_unlearning_divides_by_what_the_assistant_remembers(
    paper: Any, seed: int, strength: float, alpha: float | None
) -> None:
    world = paper.world(seed, holes=False)
    masses = np.exp(np.log(world[M]) - strength * np.log(world[A]))
    if alpha is not None:
        masses = on(plausible(world[M], alpha), masses)
    paper.agrees(unlearned(M, A, strength, alpha), world, masses)


@pytest.mark.parametrize("strengths", [[], [1.0], [1.0, 2.0, 3.0]])
def test_a_genarm_of_more_or_fewer_strengths_than_rewards_is_refused(
    strengths: list[float],
) -> None:
    with pytest.raises(FormulaError, match=f"not 2 reward models and {len(strengths)} strengths"):
        genarm(M, A, B, strengths=strengths)
    with pytest.raises(FormulaError, match="not 0 reward models and 0 strengths"):
        genarm(M)
