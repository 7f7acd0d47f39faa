"""The cost model: tokens of a check, cost of a token, and the cheapest factor."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from marith.speculation.cost_model import best_factor, cost_per_token, expected_tokens

chances = st.floats(0, 1)
costs = st.floats(0.001, 100)


@given(chances, st.integers(0, 30))
@example(1.0, 7)
@example(0.0, 7)
@example(0.0, 0)
@example(1 - 1e-16, 30)
@example(5e-324, 3)
def test_the_closed_form_is_the_sum(acceptance: float, drafted: int) -> None:
    summed = sum(acceptance**i for i in range(drafted + 1))
    assert expected_tokens(acceptance, drafted) == pytest.approx(summed, rel=1e-12)


@given(chances, costs, costs, st.floats(2, 40), st.floats(0.01, 1))
def test_the_cost_per_token_is_convex(
    acceptance: float, cost: float, first: float, s: float, width: float
) -> None:
    left, middle, right = (
        cost_per_token(s + step, acceptance, cost, first) for step in (-width, 0.0, width)
    )
    assert left - 2 * middle + right >= -1e-12 * (left + middle + right)


@given(chances, costs, costs, st.integers(1, 24))
@example(1.0, 1.0, 1.0, 16)
@example(0.9, 0.001, 100.0, 16)
def test_the_best_factor_is_that_of_exhaustive_search(
    acceptance: float, cost: float, first: float, most: int
) -> None:
    def price(s: int) -> float:
        return cost_per_token(s, acceptance, cost, first)

    best = best_factor(acceptance, cost, first, most)
    least = min(map(price, range(1, most + 1)))
    assert 1 <= best <= most
    assert price(best) == pytest.approx(least, rel=1e-12)
    assert all(price(s) >= price(best) * (1 + 1e-15) for s in range(1, best))
