"""The choice of factors: what a check makes, what a token costs, and the cheapest factor."""

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


@given(chances, costs, st.floats(0, 1), st.floats(2, 40), st.floats(0.01, 1))
def test_superseded_it_is_convex_for_a_draft_no_dearer_than_the_truth(
    acceptance: float, cost: float, share: float, s: float, width: float
) -> None:
    left, middle, right = (
        cost_per_token(s + step, acceptance, cost, share * cost, superseded=True)
        for step in (-width, 0.0, width)
    )
    assert left - 2 * middle + right >= -1e-12 * (left + middle + right)


def test_superseded_by_a_cheaper_truth_it_bends_down() -> None:
    at = [cost_per_token(s, 0.5, 0.001, 1.0, superseded=True) for s in (1.0, 1.1, 1.2)]
    assert at[0] - 2 * at[1] + at[2] < 0


@given(chances, costs, costs, st.integers(1, 24), st.booleans())
@example(1.0, 1.0, 1.0, 16, False)
@example(0.9, 0.001, 100.0, 16, True)
def test_the_best_factor_is_that_of_exhaustive_search(
    acceptance: float, cost: float, first: float, most: int, superseded: bool
) -> None:
    def price(s: int) -> float:
        return cost_per_token(s, acceptance, cost, first, superseded)

    best = best_factor(acceptance, cost, first, most, superseded)
    least = min(map(price, range(1, most + 1)))
    assert 1 <= best <= most
    assert price(best) == pytest.approx(least, rel=1e-12)
    assert all(price(s) >= price(best) * (1 + 1e-15) for s in range(1, best))


@given(chances, costs, costs)
def test_a_draft_that_need_not_speak_at_the_end_costs_one_call_less(
    acceptance: float, cost: float, first: float
) -> None:
    whole = cost_per_token(4, acceptance, cost, first)
    saved = first / expected_tokens(acceptance, 3)
    less = cost_per_token(4, acceptance, cost, first, superseded=True)
    assert less == pytest.approx(whole - saved, rel=1e-9)
