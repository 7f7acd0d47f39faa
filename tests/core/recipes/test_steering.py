"""Classifiers, rewards and biased prompts, against the equations of their papers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import speakers

from marith import Classifier, NGram, Uniform, parse
from marith.errors import FormulaError
from marith.formula.meaning.leaves import leaves
from marith.formula.tree.nodes import Formula
from marith.formula.tree.signals import POSITION
from marith.formula.tree.terms import Likelihood
from marith.recipes import fudge, gedi, reward_guided, self_debiased, union_detox

M, A, B, _ = speakers(4)
JUDGE = Classifier("judge")
SEEDS = st.integers(0, 10**6)
few = settings(max_examples=12)


def likeliest(masses: Any, k: int) -> Any:
    """Whether each token is among the k likeliest that can be said at all."""
    ranks = (-masses).argsort(axis=-1).argsort(axis=-1)
    return (ranks < k) & (masses > 0)


def judged(paper: Any, formula: Formula, seed: int, k: int | None) -> tuple[Any, Any]:
    """A world in which a classifier has spoken of its candidates, and C(x₁..x_k) of each token."""
    world, draw = paper.world(seed), np.random.default_rng(seed)
    shape = world[M].shape
    after, before = draw.uniform(0.01, 1, shape), draw.uniform(0.01, 1, (shape[0], 1))
    ratios = np.log(after) - np.log(before)
    if k is not None:
        ratios = np.where(likeliest(world[M], k), ratios, 0.0)
    (asked,) = [leaf for leaf in leaves(formula) if isinstance(leaf, Classifier)]
    return world.beside({asked: ratios}), after


@few
@given(seed=SEEDS, power=st.floats(0.1, 5), k=st.integers(1, 20))
def test_fudge_is_the_product_with_the_classifier_on_the_likeliest(
    paper: Any, seed: int, power: float, k: int
) -> None:
    formula = fudge(M, JUDGE, power, k)
    assert any(leaf == Classifier("judge", candidates=k) for leaf in leaves(formula))
    world, after = judged(paper, formula, seed, k)
    masses = np.where(likeliest(world[M], k), world[M] * after**power, 0.0)
    paper.agrees(formula, world, masses)


@few
@given(seed=SEEDS, power=st.floats(0.1, 5))
def test_fudge_without_a_cut_judges_the_candidates_of_the_classifier(
    paper: Any, seed: int, power: float
) -> None:
    formula = fudge(M, JUDGE, power, None)
    assert JUDGE in leaves(formula)
    world, after = judged(paper, formula, seed, None)
    paper.agrees(formula, world, world[M] * after**power)


@few
@given(seed=SEEDS, beta=st.floats(0.1, 50), k=st.integers(1, 20))
def test_a_reward_is_added_to_the_logits_of_the_likeliest(
    paper: Any, seed: int, beta: float, k: int
) -> None:
    reward = Classifier("judge", scale="probability")
    formula = reward_guided(M, reward, beta, k)
    world, draw = paper.world(seed), np.random.default_rng(seed)
    rewards, before = draw.uniform(0, 1, world[M].shape), draw.uniform(0, 1, (3, 1))
    best = likeliest(world[M], k)
    (asked,) = [leaf for leaf in leaves(formula) if isinstance(leaf, Classifier)]
    assert (asked.candidates, asked.scale) == (k, "probability")
    told = world.beside({asked: np.where(best, rewards - before, 0.0)})
    masses = np.where(best, world[M] * np.exp(beta * (rewards - 1)), 0.0)
    paper.agrees(formula, told, masses)


@pytest.mark.parametrize("wrong", [M, Uniform(), NGram(online=True)])
def test_only_a_classifier_can_guide(wrong: Formula) -> None:
    for method in (fudge, reward_guided):
        with pytest.raises(FormulaError, match="only a classifier can steer the model, not "):
            method(M, wrong)


def test_a_classifier_that_is_named_keeps_its_candidates() -> None:
    bound = parse("fudge(M, C)", {"C": Classifier("judge", candidates=7)})
    assert Classifier("judge", candidates=7) in leaves(bound)


@few
@given(seed=SEEDS, omega=st.floats(0.1, 30), start=st.integers(0, 20))
def test_gedi_weighs_by_bayes_rule_over_the_whole_text(
    paper: Any, seed: int, omega: float, start: int
) -> None:
    draw = np.random.default_rng(seed)
    history = {term: np.log(draw.uniform(0.05, 1, start + 2)) for term in (A, B)}  # token by token
    places = np.arange(start, start + 3)
    sums = {t: np.array([[h[:place].sum()] for place in places]) for t, h in history.items()}
    world = paper.world(seed, holes=False).beside(
        {POSITION: places[:, None], **{Likelihood(term): told for term, told in sums.items()}}
    )
    length = places[:, None] + 1
    wanted, other = (
        np.exp((sums[term] + np.log(world[term])) / length) for term in (A, B)
    )  # ∏ P(x_j | x_<j, c), to the power 1 / length
    chance = wanted / (wanted + other)
    paper.agrees(gedi(M, A, B, omega), world, world[M] * chance**omega)


@few
@given(seed=SEEDS, decay=st.floats(0, 60), floor=st.sampled_from([0.0, 0.01, 0.2]))
def test_self_debiasing_makes_rare_what_the_biased_prompt_makes_likelier(
    paper: Any, seed: int, decay: float, floor: float
) -> None:
    world = paper.world(seed)
    more = world[M] - np.maximum(world[A], world[B])
    scale = np.where(more >= 0, 1.0, np.maximum(np.exp(decay * more), floor))
    masses = world[M] * scale
    paper.agrees(self_debiased(M, A, B, decay=decay, floor=floor), world, masses)


@few
@given(seed=SEEDS, strength=st.floats(0.01, 0.96))
def test_the_union_lowers_only_what_the_toxic_prompt_makes_likelier(
    paper: Any, seed: int, strength: float
) -> None:
    world = paper.world(seed, holes=False)
    k = strength / (1 - strength)
    likelier = np.maximum(1, world[A] / world[M])
    masses = world[M] * likelier**-k
    paper.agrees(union_detox(M, A, strength=strength), world, masses)
    formula = union_detox(M, A, JUDGE, strength)
    ratios = np.random.default_rng(seed).normal(size=world[M].shape)
    paper.agrees(formula, world.beside({JUDGE: ratios}), masses * np.exp(ratios))
