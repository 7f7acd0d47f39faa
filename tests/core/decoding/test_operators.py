"""Operators of later papers, compared with their equations on random logits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.distributions import close
from support.strategies import JUDGE, World, shares, speakers, spoken, weighty
from torch import Tensor

from marith.decoding import cuts
from marith.decoding.evaluate import Evaluation, evaluate, value_of
from marith.errors import FormulaError
from marith.formula.tree.factors import Varying
from marith.formula.tree.nodes import Formula
from marith.formula.tree.operators import (
    agreed,
    intersection,
    mixture,
    posterior,
    relu,
    self_debias,
    supersede,
    union,
    unscaled,
    where,
)
from marith.formula.tree.signals import (
    POSITION,
    class_prob,
    entropy,
    first,
    indicator,
    jsd,
    max_prob,
)

a, b, c = TERMS = speakers(3)
worlds, holed = spoken(TERMS), spoken(TERMS, holes=True)


def value(factor: Varying, world: World) -> Tensor:
    return torch.as_tensor(Evaluation(world).factor(factor))


@given(holed, st.floats(0.0, 0.97))
def test_subtracting_a_union_equals_subtracting_a_relu(world: World, factor: float) -> None:
    """Where a term can say nothing, too: what only the prompt to avoid forbids stays allowed."""
    k = factor / (1 - factor)
    close(evaluate(a - factor * union(b, a), world), evaluate(a - k * relu(b - a), world), 1e-4)
    close(evaluate(a - factor * union(a, b), world), evaluate(a - k * relu(b - a), world), 1e-4)


@given(holed)
def test_an_intersection_equals_a_sum_without_the_relu(world: World) -> None:
    close(evaluate(intersection(a, b), world), evaluate(a - relu(a - b), world))


@given(worlds, st.floats(-3, 3))
def test_a_relu_is_what_is_above_zero_and_weighs_nothing(world: World, n: float) -> None:
    above = torch.relu(world[b] - 0.3 * world[a] - 0.7 * world[c])
    want = torch.log_softmax(world[a] + n * above, dim=-1)
    close(evaluate(a + n * relu(b - 0.3 * a - 0.7 * c), world), want, 1e-4)
    assert value_of(relu(b - a), world).weight == 0.0


def test_tokens_outside_a_cut_of_a_subtracted_relu_stay_allowed() -> None:
    model = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
    toxic = torch.tensor([[0.1, 0.1, 0.2, 0.6]]).log()
    told = evaluate(a - 24 * relu(b.top_k(1) - a), {a: model, b: toxic})[0].exp()
    torch.testing.assert_close(told[:3], torch.tensor([0.4, 0.3, 0.2]) / 0.9)
    assert float(told[3]) < 1e-12


@given(worlds, st.floats(0.1, 3), st.floats(0.1, 3))
def test_a_mixture_is_the_sum_of_probabilities(world: World, x: float, y: float) -> None:
    want = (x * world[a].exp() + y * world[b].exp()) / (x + y)
    close(evaluate(mixture(x, a, y, b), world), want.log())
    three = mixture(x, a, y, b, 1, c)
    close(evaluate(three, world), ((want * (x + y) + world[c].exp()) / (x + y + 1)).log())
    close(evaluate(mixture(x, 2 * a, y, b + b), world), want.log())


@given(worlds, st.floats(0.05, 0.9))
def test_a_weight_below_zero_takes_probability_away(world: World, share: float) -> None:
    raw = world[a].double().exp() - share * world[b].double().exp()
    want = raw.clamp(min=0.0) / raw.clamp(min=0.0).sum(dim=-1, keepdim=True)
    told = evaluate(mixture(1, a, -share, b), world)
    torch.testing.assert_close(told.double().exp(), want, atol=1e-5, rtol=1e-4)
    assert bool(told[raw <= 0].exp().lt(1e-20).all())
    assert not bool(told.isneginf().any())


@given(holed, shares(TERMS), st.floats(0.1, 2))
def test_a_mixture_weighs_by_the_context(world: World, factor: Varying, n: float) -> None:
    share = value(factor, world)
    mass = share * world[a].exp() + n * world[b].exp()
    told = evaluate(mixture(factor, a, n, b), world)
    torch.testing.assert_close(told.exp(), mass / mass.sum(dim=-1, keepdim=True), atol=1e-5, rtol=0)
    assert bool(told.isneginf().eq(world[a].isneginf() & world[b].isneginf()).all())


@given(weighty(TERMS), weighty(TERMS), worlds, st.sampled_from([0.21, 0.37, 0.83]))
def test_a_gate_picks_one_of_two_at_each_place(
    f: Formula, g: Formula, world: World, bound: float
) -> None:
    then, otherwise = evaluate(f, world), evaluate(g, world)
    for condition, holds in (
        (max_prob(a) > bound, value(max_prob(a), world) > bound),
        (class_prob(JUDGE) <= bound, value(class_prob(JUDGE), world) <= bound),
        (first(2), world[POSITION] < 2),
    ):
        close(evaluate(where(condition, f, g), world), torch.where(holds, then, otherwise))
    close(evaluate(where(entropy(a) >= 0, f, g), world), then)
    close(evaluate(where(jsd(a, a) > 0.5, f, g), world), otherwise)
    close(evaluate(where(indicator(a - b), a, b), world), evaluate(union(a, b), world))


def test_an_impossible_branch_that_is_not_chosen_does_not_matter() -> None:
    left = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]).log()
    right = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]).log()
    world = {a: left, b: right, c: left, POSITION: torch.tensor([[1.0], [2.0]])}
    gate = where(first(2), c, a + b)
    with pytest.raises(FormulaError, match="no token is allowed"):
        evaluate(gate, world)
    only = {term: rows[:1] for term, rows in world.items()}
    close(evaluate(gate, only), left[:1])


@given(weighty(TERMS), holed, st.floats(0.5, 5), st.floats(0.5, 5))
def test_temperatures_divide_log_probabilities_and_compose(
    f: Formula, world: World, one: float, other: float
) -> None:
    plain = evaluate(f, world)
    close(evaluate(f.temperature(1), world), plain)
    close(evaluate(f.temperature(one), world), torch.log_softmax(plain / one, dim=-1), 1e-4)
    twice = evaluate(f.temperature(one).temperature(other), world)
    close(twice, evaluate(f.temperature(one * other), world), 1e-4)
    rest = evaluate(3 * f - f.temperature(one), world)
    close(rest, torch.log_softmax(plain * ((3 - 1 / one) / 2), dim=-1), 1e-3)


@given(worlds)
def test_posteriors_of_all_members_add_up_to_one(world: World) -> None:
    shares = [value_of(posterior(*order), world).score.exp()
              for order in ((a, b, c), (b, c, a), (c, a, b))]  # fmt: skip
    torch.testing.assert_close(sum(shares), torch.ones(2, 9))


@given(worlds, st.integers(1, 9))
def test_agreed_cuts_the_whole_sum_to_the_common_tokens(world: World, count: int) -> None:
    told = evaluate(0.4 * a + 0.6 * b + agreed(b, 2 * a, count=count), world)
    kept = cuts.common([world[a], world[b]], count)
    close(told, cuts.keep(evaluate(0.4 * a + 0.6 * b, world), kept))
    assert value_of(agreed(a, b), world).weight == 0.0


@given(weighty(TERMS), weighty(TERMS), holed)
def test_members_of_operators_are_normalised_first(f: Formula, g: Formula, world: World) -> None:
    builds: list[Callable[[Formula, Formula], Formula]] = [
        lambda x, y: mixture(0.7, x, 0.6, y),
        lambda x, y: where(max_prob(a) > 0.37, x, y),
        lambda x, y: self_debias(x, y, decay=5),
        lambda x, y: supersede(y, x).temperature(2),
    ]
    for build in builds:
        close(evaluate(build(3 * f, g), world), evaluate(build(f, 2 * g), world), 1e-4)
        close(evaluate(build(unscaled(f), g), world).exp().sum(dim=-1).log(), torch.zeros(2))
