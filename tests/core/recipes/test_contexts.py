"""What a context changes, against the equations of three papers."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import entr, expit
from support.strategies import speakers

from marith.recipes import adaptive_context_aware, cocoa, context_aware

MODEL, WITHOUT, SPEAKER, _ = speakers(4)
SEEDS = st.integers(0, 10**6)
STRENGTHS = st.floats(0.01, 4)
few = settings(max_examples=12)


@few
@given(seed=SEEDS, alpha=STRENGTHS)
def test_context_aware_is_the_papers_product_with_the_mutual_information(
    paper: Any, seed: int, alpha: float
) -> None:
    world = paper.world(seed)
    told = world[MODEL] * paper.power(world[WITHOUT], -1)
    masses = world[MODEL] * paper.power(told, alpha)
    paper.agrees(context_aware(MODEL, WITHOUT, alpha), world, masses)


@few
@given(seed=SEEDS, alpha=STRENGTHS)
def test_context_aware_adds_the_same_difference_to_another_model(
    paper: Any, seed: int, alpha: float
) -> None:
    world = paper.world(seed, holes=False)
    told = np.log(world[MODEL]) - np.log(world[WITHOUT])
    masses = np.exp(np.log(world[SPEAKER]) + alpha * told)
    paper.agrees(context_aware(MODEL, WITHOUT, alpha, SPEAKER), world, masses)


def divergence(p: Any, q: Any) -> float:
    """KL(P ‖ Q) in nats."""
    return sum(a * np.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)


def jensen_shannon(p: Any, q: Any) -> float:
    """In bits: half of what either is away from the middle."""
    middle = (p + q) / 2
    return (divergence(p, middle) + divergence(q, middle)) / 2 / np.log(2)


@few
@given(seed=SEEDS, scale=st.floats(0.1, 2), floor=st.sampled_from([0.0, 0.3]))
def test_adacad_contrasts_as_much_as_context_and_memory_disagree(
    paper: Any, seed: int, scale: float, floor: float
) -> None:
    world = paper.world(seed)
    pairs = zip(world[MODEL], world[WITHOUT], strict=True)
    apart = np.array([[jensen_shannon(p, q)] for p, q in pairs])
    alpha = scale * np.maximum(apart, floor)
    masses = paper.power(world[MODEL], 1 + alpha) * paper.power(world[WITHOUT], -alpha)
    paper.agrees(adaptive_context_aware(MODEL, WITHOUT, scale, floor), world, masses)


def gate(context: Any, memory: Any, gamma: float) -> float:
    """How much the context counts, by three signals: surer than memory, away from it, peaked."""
    sharper = entr(memory).sum() - entr(context).sum()
    apart = -2 * np.log(np.sqrt(context * memory).sum())
    best, second = sorted(context)[:-3:-1]
    return float(np.clip(expit(gamma * (sharper + apart / (1 + apart) + best - second)), 0.1, 0.9))


@few
@given(seed=SEEDS, gamma=st.floats(-3, 5).filter(lambda gamma: abs(gamma) > 1e-3))
def test_cocoa_blends_by_how_sure_the_context_makes(paper: Any, seed: int, gamma: float) -> None:
    world = paper.world(seed)
    pairs = zip(world[MODEL], world[WITHOUT], strict=True)
    share = np.array([[gate(context, memory, gamma)] for context, memory in pairs])
    masses = paper.power(world[WITHOUT], 1 - share) * paper.power(world[MODEL], share)
    paper.agrees(cocoa(MODEL, WITHOUT, gamma), world, masses)
