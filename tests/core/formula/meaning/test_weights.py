"""The weight that a score is divided by, and its smallest possible value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import World, shares, speakers, spoken, weighty
from torch import Tensor

from marith.decoding.evaluate import Evaluation, value_of
from marith.errors import FormulaError
from marith.formula.meaning.binding import resolve
from marith.formula.meaning.checking import check
from marith.formula.meaning.polynomials import Weight
from marith.formula.meaning.weights import Weights, weigh, weight_of
from marith.formula.text.trust import parse
from marith.formula.tree.factors import Varying
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Classifier

TERMS = speakers(3)
NAMED = resolve({"a": "A", "b": "B", "C": Classifier("c")})


def values(world: World) -> Evaluation:
    return Evaluation(world)


def total(weight: Weight, known: Evaluation) -> Tensor:
    """The sum of products, at each of two positions."""
    found = torch.zeros(2, 1)
    for monomial, number in weight.numbers.items():
        found = found + number * math.prod([known.factor(one) for one in monomial], start=1.0)
    return found


@given(weighty(TERMS), spoken(TERMS))
def test_the_weight_is_what_a_score_is_divided_by(f: Formula, world: World) -> None:
    divisor = torch.as_tensor(value_of(f, world).weight).expand(2, 1)
    torch.testing.assert_close(total(weigh(f), values(world)), divisor, atol=1e-4, rtol=1e-4)
    assert bool((divisor >= weight_of(f) * (1 - 1e-5) - 1e-5).all())
    assert weight_of(f) > 0


@given(shares(TERMS), spoken(TERMS))
def test_a_factor_is_within_its_bounds_and_its_expansion_is_itself(
    one: Varying, world: World
) -> None:
    known, (low, high) = values(world), Weights().factor(one).range
    value = torch.as_tensor(known.factor(one)).expand(2, 1)
    assert bool(((low - 1e-5 <= value) & (value <= high + 1e-5)).all())
    torch.testing.assert_close(total(Weights().factor(one), known), value, atol=1e-5, rtol=1e-5)


numbers = st.integers(-4, 4)


@given(st.lists(numbers, min_size=8, max_size=8))
def test_the_smallest_weight_is_the_smallest_over_all_values_of_the_factors(n: list[int]) -> None:
    """Three factors from 0 to 1, linear in each: as over a grid."""
    text = "{}*M + {}*x*M + {}*y*M + {}*z*M + {}*x*y*M + {}*x*z*M + {}*y*z*M + {}*x*y*z*M".format(
        *(f"({one})" for one in n)
    )
    for name, factor in (("x", "max_prob(a)"), ("y", "margin(b)"), ("z", "class_prob(C)")):
        text = text.replace(f"{name}*", f"{factor}*")
    grid = (
        n[0] + n[1] * x + n[2] * y + n[3] * z + n[4] * x * y + n[5] * x * z + n[6] * y * z
        + n[7] * x * y * z for x, y, z in product((0, 0.25, 0.5, 1), repeat=3)
    )  # fmt: skip
    assert weight_of(parse(text), NAMED) == pytest.approx(min(grid))


WEIGHTS: list[tuple[str, str, float]] = [
    ("M", "1", 1),
    ("(1 - jsd(M, a))*M + jsd(M, a)*a", "1", 1),
    ("M + jsd(M, a)*(M - a)", "1", 1),
    ("M + 2*max_prob(M)*a", "1 + 2·max_prob(M)", 1),
    ("-max_prob(M)*a + 2*M", "−max_prob(M) + 2", 1),
    ("M - a + first(2)*(1 + decay(3))*M", "first(2) + decay(3)·first(2)", 0),
    ("M + max_prob(M)*(2 - max_prob(a))*a", "1 + 2·max_prob(M) − max_prob(M)·max_prob(a)", 1),
    ("M + renyi(M, a)*a", "1 + renyi(M, a)", 1),
    ("M - position()*a", "1 − position()", -math.inf),
    ("M + minimum(position()/8, 1)*a", "1 + minimum(0.125*position(), 1)", 1),
    ("M - renyi(M, a)*a", "1 − renyi(M, a)", -math.inf),
    ("M/(1 + max_prob(M))", "1/(1 + max_prob(M))", 0.5),
    ("maximum(0.2, max_prob(M))*M", "maximum(0.2, max_prob(M))", 0.2),
    ("minimum(maximum(sigmoid(entropy(M)), 0.1), 0.9)*M",
     "minimum(maximum(sigmoid(entropy(M)), 0.1), 0.9)", 0.1),
    ("M + 5*class_prob(C)*C", "1", 1),
    ("M - 3*relu(a - M) + 2*posterior(a, b) + agreed(M, a)", "1", 1),
    ("where(entropy(M) > 2, a, 3*M)", "1", 1),
    ("(2*M + a).temperature(0.5)", "3", 3),
    ("self_debias(2*M, a) + mixture(2, M, 1, a)", "2", 2),
    ("indicator(a - M)*a + (1 - indicator(a - M))*M", "1", 1),
]  # fmt: skip


@pytest.mark.parametrize(("text", "weight", "least"), WEIGHTS, ids=[text for text, *_ in WEIGHTS])
def test_a_weight_is_a_sum_of_what_has_not_cancelled(text: str, weight: str, least: float) -> None:
    own = weigh(parse(text), NAMED)
    assert str(own) == weight
    assert own.least == pytest.approx(least)
    assert own.constant == (None if "(" in weight else pytest.approx(least))


REFUSED = [
    (
        "max_prob(M)*M",
        "not max_prob(M), which may be as low as 0; write, for example, (0.1 + max_prob(M))*M",
    ),
    (
        "M - max_prob(M)*a",
        "not 1 − max_prob(M), which may be as low as 0; write, for example, 2*M - max_prob",
    ),
    ("first(3)*M", "more than zero, not first(3), which may be as low as 0; write, for example, ("),
    ("M - entropy(M)*a", "no lower bound; write, for example, M - minimum(0.5, entropy(M))*a"),
    ("indicator(a - M)*M", "must not differ from token to token, as indicator(a - M) does"),
    ("M + maximum(indicator(a - M), max_prob(M))*a", "must not differ from token to token"),
    ("M + sigmoid(2*indicator(a - M))*a", "must not differ from token to token"),
]


@pytest.mark.parametrize(("text", "says"), REFUSED, ids=[text for text, _ in REFUSED])
def test_a_weight_that_may_be_zero_or_differs_by_token_is_refused(text: str, says: str) -> None:
    with pytest.raises(FormulaError) as refused:
        check(parse(text), NAMED)
    assert says in str(refused.value)


def test_factors_of_a_high_degree_are_bounded_one_by_one() -> None:
    """x² − x is 0 at both ends and below it between: ends alone would say too much."""
    assert weigh(parse("M + (max_prob(M)*max_prob(M) - max_prob(M))*a"), NAMED).least <= 0.75
    many = " + ".join(f"first({i})*M" for i in range(1, 12))
    assert weigh(parse(f"M + {many}"), NAMED).least == 1


def test_a_sum_that_nearly_cancels_counts_as_zero() -> None:
    own: Mapping[Any, float] = weigh(parse("M + (0.1 + 0.2 - 0.3)*max_prob(M)*a"), NAMED).numbers
    assert len(own) == 1
