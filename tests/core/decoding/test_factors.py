"""The values of factors at each position, and what a factor does to what it multiplies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.distributions import close
from support.strategies import JUDGE, World, logprobs, observed, shares, speakers, spoken, weighty
from torch import Tensor

from marith.decoding import divergences
from marith.decoding.evaluate import Evaluation, Value, evaluate, holds
from marith.formula.tree.factors import (
    Arithmetic,
    Comparison,
    Extreme,
    Factor,
    Sigmoid,
    Varying,
    maximum,
    minimum,
    sigmoid,
)
from marith.formula.tree.nodes import Formula
from marith.formula.tree.operators import intersection, union
from marith.formula.tree.signals import (
    POSITION,
    balance,
    class_prob,
    decay,
    entropy,
    first,
    indicator,
    jsd,
    judgement_of,
    likelihood_of,
    margin,
    max_prob,
    position,
    renyi,
)
from marith.formula.tree.terms import Term

a, b, c = TERMS = speakers(3)
worlds = spoken(TERMS)


def factors(world: World) -> Evaluation:
    return Evaluation(world)


@given(worlds)
def test_a_measure_is_computed_from_normalised_distributions(world: World) -> None:
    known, p, q = factors(world), world[a], world[b]
    both = torch.log_softmax(0.5 * p + 0.5 * q, dim=-1)
    told: Mapping[Varying, Tensor] = {
        jsd(a, b): divergences.jensen_shannon(p, q),
        jsd(3 * a, a + b): divergences.jensen_shannon(p, both),
        renyi(b, a, 0.3): divergences.renyi(q, p, 0.3),
        entropy(a + b): divergences.concentration("entropy", both),
        max_prob(2 * a): p.exp().amax(dim=-1, keepdim=True),
        margin(b): divergences.concentration("margin", q),
        class_prob(JUDGE): world[judgement_of(JUDGE)].exp(),
        balance(a, b): divergences.balance(
            p, q, world[likelihood_of(a)] - world[likelihood_of(b)]
        ),
    }  # fmt: skip
    for factor, want in told.items():
        torch.testing.assert_close(known.factor(factor), want, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("start", [0, 1, 3])
def test_schedules_depend_on_the_position(start: int) -> None:
    world: World = {POSITION: torch.arange(start, start + 5)[:, None].float()}
    known, places = factors(world), range(start, start + 5)
    torch.testing.assert_close(known.factor(position()), world[POSITION])
    counted, halved = known.factor(first(3)), known.factor(decay(2))
    assert isinstance(counted, Tensor)
    assert isinstance(halved, Tensor)
    assert counted[:, 0].tolist() == [float(place < 3) for place in places]
    assert halved[:, 0].tolist() == pytest.approx([0.5 ** (place / 2) for place in places])
    tiny = known.factor(decay(1e-300))
    assert isinstance(tiny, Tensor)
    assert tiny[:, 0].tolist() == [float(place == 0) for place in places]


def worth(factor: Factor, known: Evaluation, place: int) -> float:
    """A factor's value by plain arithmetic, from the values of what cannot be taken apart."""
    match factor:
        case float():
            return factor
        case Arithmetic(operator, left, right):
            x, y = worth(left, known, place), worth(right, known, place)
            return {"+": x + y, "-": x - y, "*": x * y, "/": x / y if operator == "/" else 0}[
                operator
            ]
        case Extreme(kind, of):
            values = [worth(one, known, place) for one in of]
            return max(values) if kind == "maximum" else min(values)
        case Sigmoid(of):
            return 1 / (1 + math.exp(-worth(of, known, place)))
    return float(torch.as_tensor(known.factor(factor))[place, 0])


@given(shares(TERMS), shares(TERMS), shares(TERMS), st.floats(-3, 3), worlds)
def test_arithmetic_with_factors_equals_arithmetic_with_numbers(
    x: Varying, y: Varying, z: Varying, n: float, world: World
) -> None:
    known = factors(world)
    for factor in (
        x + n * y - z, (1 - x) * (n - y), (x + n) / (1.5 + y), 1 / (2 - z), -x * y / 4,
        maximum(x, n, y), minimum(x, y + n), sigmoid(n * x - y), maximum(1, n) * x,
    ):  # fmt: skip
        value = torch.as_tensor(known.factor(factor)).expand(2, 1)
        want = [worth(factor, known, place) for place in range(2)]
        assert value[:, 0].tolist() == pytest.approx(want, abs=1e-5, rel=1e-4)


@given(worlds, st.floats(0, 1))
def test_a_condition_compares_at_each_place(world: World, bound: float) -> None:
    known, value = factors(world), torch.as_tensor(factors(world).factor(max_prob(a)))
    assert holds(max_prob(a) > bound, known).tolist() == (value > bound).tolist()
    assert holds(max_prob(a) <= bound, known).tolist() == (value <= bound).tolist()
    assert holds(Comparison(bound, "<", max_prob(a)), known).tolist() == (value > bound).tolist()
    assert holds(Comparison(bound, ">=", max_prob(a)), known).tolist() == (value <= bound).tolist()


@given(spoken(TERMS, holes=True))
def test_an_indicator_is_one_where_the_first_is_likelier(world: World) -> None:
    above = torch.as_tensor(factors(world).factor(indicator(a - b)))
    neither = world[a].isneginf() & world[b].isneginf()
    assert above[~neither].tolist() == (world[a] > world[b])[~neither].float().tolist()


@given(spoken(TERMS, holes=True))
def test_union_and_intersection_are_indicators(world: World) -> None:
    """Paper, section 3: union(Q₁, Q₂) = I₁·Q₁ + I₂·Q₂; the intersection has them switched."""
    above = indicator(a - b)
    for f, g in (
        (above * a + (1 - above) * b, union(a, b)),
        ((1 - above) * a + above * b, intersection(a, b)),
    ):
        close(evaluate(f, world), evaluate(g, world))
        assert bool(evaluate(f, world).isneginf().eq(evaluate(g, world).isneginf()).all())


@given(weighty(TERMS), shares(TERMS), spoken(TERMS, holes=True))
def test_scaling_a_whole_formula_by_a_factor_of_the_context_changes_nothing(
    f: Formula, factor: Varying, world: World
) -> None:
    close(evaluate((0.5 + factor) * f, world), evaluate(f, world), 1e-4)
    close(evaluate(f / (2 - factor), world), evaluate(f, world), 1e-4)


@given(worlds, st.floats(-3, 3), shares(TERMS))
def test_a_varying_sum_is_its_score_divided_by_its_weight(
    world: World, n: float, factor: Varying
) -> None:
    value = torch.as_tensor(factors(world).factor(factor)).double()
    rows = [world[term].double() for term in TERMS]
    score = rows[0] + n * value * (rows[1] - rows[2]) + (1 + value) * rows[2]
    want = torch.log_softmax(score / (2 + value), dim=-1)
    close(evaluate(a + n * factor * (b - c) + (1 + factor) * c, world).double(), want, 1e-4)


@given(spoken(TERMS, positions=4), st.integers(1, 3))
def test_a_member_with_factor_zero_at_a_position_forbids_nothing_there(
    world: World, count: int
) -> None:
    world = {**world, POSITION: torch.arange(4)[:, None].float()}
    result = evaluate(a + first(count) * b.top_k(2), world)
    only = {term: rows[count:] for term, rows in world.items()}
    close(result[count:], evaluate(a, only))
    assert bool(result[:count].isneginf().any(dim=-1).all())


def test_a_factor_of_zero_at_one_token_forbids_nothing_there() -> None:
    left, right = torch.tensor([[0.5, 0.5, 0.0]]).log(), torch.tensor([[0.0, 0.1, 0.9]]).log()
    above = indicator(a - b)
    told = evaluate(above * a + (1 - above) * b, {a: left, b: right})
    close(told, torch.tensor([[0.5, 0.5, 0.9]]).log().log_softmax(dim=-1))


def divergence(p: Tensor, q: Tensor, f: Any) -> Tensor:
    """Σ P·f·(log P − log Q), the weighted divergence of the paper, for P [count, vocab]."""
    apart: Tensor = p * f * (p.clamp_min(1e-300).log() - q)
    return apart.sum(dim=-1)


@given(worlds, shares(TERMS), shares(TERMS), st.integers(0, 2**31))
def test_theorem_1_holds_with_factors_of_the_context_and_of_the_token(
    world: World, x: Varying, y: Varying, seed: int
) -> None:
    """The weights add up to 1 + 0.5·y, the same for every token, though two hang on it."""
    above = indicator(b - c)
    parts: list[tuple[Factor, Formula]] = [(1 + x, a), (-x, b), (y * above, b), (-y * above, c)]
    parts.append((0.5 * y, c))
    formula = (1 + x) * a - x * b + y * above * (b - c) + 0.5 * y * c
    known, source = factors(world), torch.Generator().manual_seed(seed)
    best = evaluate(formula, world)[0].double().exp()[None]
    far = torch.softmax(torch.randn(60, 9, generator=source, dtype=torch.float64) * 3, dim=-1)

    def objective(p: Tensor) -> Tensor:
        values = [torch.as_tensor(known.factor(factor)) for factor, _ in parts]
        sides = [
            divergence(p, world[term][0].double(), value[0] if value.ndim else value)  # type: ignore[index]
            for value, (_, term) in zip(values, parts, strict=True)
        ]
        return torch.stack(sides).sum(dim=0)

    others = torch.cat([far, 0.98 * best + 0.02 * far])
    assert bool((objective(others) >= objective(best) - 1e-4).all())


@pytest.mark.parametrize(
    "factor",
    [1 - jsd(a, b), maximum(0.5, entropy(a)), minimum(1, 2) * max_prob(a), 1 / (1 + first(2)),
     sigmoid(class_prob(JUDGE) - 0.5), decay(2) + 1, renyi(a, b) - margin(b)],
    ids=str,
)  # fmt: skip
def test_factors_are_on_the_device_of_the_distributions(factor: Varying) -> None:
    """On whatever device: here on one that has no memory, and refuses to meet another's."""
    world: dict[Term, Tensor] = {a: torch.zeros(2, 9), b: torch.zeros(2, 9), **observed((), 2, 0)}
    there = {term: rows.to("meta") for term, rows in world.items()}

    class Elsewhere(Evaluation):
        def value(self, formula: Formula) -> Value:
            return Value(there[a], 1.0)

    known = Elsewhere(there)
    assert torch.as_tensor(known.factor(factor)).device.type == "meta"
    assert holds(factor > 0.5, known).device.type == "meta"


@given(logprobs(2, 5))
def test_a_factor_is_computed_once(rows: Tensor) -> None:
    looked: list[Formula] = []

    class Watched(Evaluation):
        def logprobs(self, formula: Formula) -> Tensor:
            looked.append(formula)
            return super().logprobs(formula)

    known = Watched({a: rows})
    known.factor(entropy(a) * (1 + entropy(a)) - maximum(entropy(a), 0.5))
    assert looked == [a]
