"""Costs and acceptance as measured, and lengths of drafts against exhaustive search."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import product
from statistics import median_low
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marith.speculation.controller.acceptance import Acceptance
from marith.speculation.controller.draft_length import (
    MARGIN,
    Offer,
    lengths,
    model_length,
)
from marith.speculation.controller.latency import PassTimes

Cost = Callable[[int], float]
chances = st.floats(0, 1)
seconds = st.floats(1e-6, 10)
notes = st.lists(st.tuples(st.integers(1, 5000), seconds), min_size=1, max_size=60)
drafts = st.lists(chances, max_size=4)


def affine(start: float, slope: float) -> Cost:
    return lambda tokens: start + slope * tokens


def bent(start: float, slope: float, knee: int) -> Cost:
    """Flat up to the knee, then steep: convex."""
    return lambda tokens: start + slope * max(0, tokens - knee)


def stepped(start: float, step: float, width: int) -> Cost:
    """A staircase: neither convex nor concave."""
    return lambda tokens: start + step * ((tokens - 1) // width)


affine_costs = st.builds(affine, st.floats(0.1, 10), st.floats(0, 3))
any_costs = (
    affine_costs
    | st.builds(bent, st.floats(0.1, 10), st.floats(0, 9), st.integers(1, 20))
    | st.builds(stepped, st.floats(0.1, 10), st.floats(0, 9), st.integers(1, 8))
)


def curve(noted: Sequence[tuple[int, float]]) -> PassTimes:
    times = PassTimes()
    for tokens, took in noted:
        times.note(tokens, took)
    return times


def cost_of(times: PassTimes, tokens: int) -> float:
    cost = times.cost(tokens)
    assert cost is not None
    return cost


def rate(
    offers: Sequence[Offer], chosen: Sequence[int], base: tuple[int, int], cost: Cost
) -> float:
    """Expected tokens per second of a choice, written out."""
    tokens, made = base[0], float(base[1])
    for offer, length in zip(offers, chosen, strict=True):
        reached = 1.0
        for chance in offer.chances[:length]:
            reached *= chance
            made += reached
            tokens += offer.rows
    return made / cost(tokens)


def exhaustive(offers: Sequence[Offer], base: tuple[int, int], cost: Cost) -> float:
    ranges = [range(len(offer.chances) + 1) for offer in offers]
    return max(rate(offers, chosen, base, cost) for chosen in product(*ranges))


def check_optimal(offers: Sequence[Offer], base: tuple[int, int], cost: Cost) -> None:
    chosen = lengths(offers, *base, cost)
    none = rate(offers, [0] * len(offers), base, cost)
    best = exhaustive(offers, base, cost)
    if any(chosen):
        assert rate(offers, chosen, base, cost) == pytest.approx(best, rel=1e-9)
        assert best >= none * (1 + MARGIN) * (1 - 1e-9)
    else:
        assert best <= none * (1 + MARGIN) * (1 + 1e-9)


@given(notes)
def test_a_larger_pass_never_costs_less(noted: list[tuple[int, float]]) -> None:
    times = curve(noted)
    costs = [cost_of(times, tokens) for tokens in range(1, 6000, 7)]
    assert costs == sorted(costs)
    assert min(took for _, took in noted) <= costs[0] <= max(took for _, took in noted)


@given(st.lists(seconds, min_size=1, max_size=30), st.integers(1, 16))
def test_a_bucket_costs_the_median_of_its_last_nine(took: list[float], tokens: int) -> None:
    times = curve([(tokens, one) for one in took])
    assert cost_of(times, tokens) == median_low(took[-9:])


@given(st.lists(seconds, min_size=2, max_size=16, unique=True))
def test_medians_in_order_are_met_exactly(took: list[float]) -> None:
    times = curve([(tokens, one) for tokens, one in enumerate(sorted(took), 1) for _ in range(3)])
    for tokens, one in enumerate(sorted(took), 1):
        assert cost_of(times, tokens) == one


def test_one_step_and_one_prompt_say_what_a_few_more_tokens_cost() -> None:
    times = curve([(4, 0.010), (204, 0.110)])
    assert cost_of(times, 1) == 0.010
    assert cost_of(times, 8) == pytest.approx(0.012)
    assert cost_of(times, 104) == pytest.approx(0.060)
    assert cost_of(times, 408) == pytest.approx(0.220)


def test_outliers_move_nothing() -> None:
    times = curve([(tokens, tokens / 1000) for tokens in (1, 2, 3, 4) for _ in range(5)])
    for _ in range(3):
        times.note(2, 9.0)
    assert [cost_of(times, tokens) for tokens in (1, 2, 3, 4)] == [0.001, 0.002, 0.003, 0.004]


def test_one_odd_pass_is_outvoted_by_its_neighbours() -> None:
    times = curve([(1, 0.010)] * 5 + [(2, 5.0)] + [(3, 0.012)] * 5)
    assert cost_of(times, 2) == cost_of(times, 3) == 0.012


def test_the_curve_forgets_how_slow_passes_once_were() -> None:
    times = curve([(3, 1.0)] * 50 + [(3, 0.1)] * 5)
    assert cost_of(times, 3) == 0.1


@given(st.lists(chances, max_size=300), chances)
def test_acceptance_stays_between_nothing_and_all(overlaps: list[float], prior: float) -> None:
    acceptance = Acceptance(prior)
    for overlap in overlaps:
        acceptance.note("a", overlap)
        assert 0 <= acceptance.of("a") <= 1
    low, high = min([prior, *overlaps]), max([prior, *overlaps])
    assert low - 1e-9 <= acceptance.of("a") <= high + 1e-9
    assert acceptance.of("b") == prior


def test_acceptance_follows_a_change_over_about_two_hundred() -> None:
    acceptance = Acceptance()
    for _ in range(1000):
        acceptance.note("a", 0.9)
    assert acceptance.of("a") == pytest.approx(0.9, abs=0.01)
    for _ in range(200):
        acceptance.note("a", 0.1)
    assert acceptance.of("a") == pytest.approx(0.1 + 0.8 / 2.718, abs=0.01)
    for _ in range(800):
        acceptance.note("a", 0.1)
    assert acceptance.of("a") == pytest.approx(0.1, abs=0.01)


def test_the_prior_is_worth_a_few_observations() -> None:
    acceptance = Acceptance(0.2)
    for _ in range(4):
        acceptance.note("a", 1.0)
    assert acceptance.of("a") == pytest.approx(0.6, abs=0.01)
    acceptance.note("rounded", 1.0000002)
    assert acceptance.of("rounded") <= 1


@given(st.lists(drafts, max_size=3), st.integers(1, 3), st.integers(0, 9), any_costs)
def test_lengths_equal_exhaustive_search_where_rows_are_equal(
    drafted: list[list[float]], rows: int, more: int, cost: Cost
) -> None:
    offers = [Offer(rows, draft) for draft in drafted]
    made = max(1, len(offers))
    check_optimal(offers, (rows * made + more, made), cost)


@given(st.lists(st.tuples(st.integers(1, 5), drafts), max_size=3), st.integers(3, 9), affine_costs)
def test_lengths_equal_exhaustive_search_where_the_cost_is_affine(
    drafted: list[tuple[int, list[float]]], tokens: int, cost: Cost
) -> None:
    check_optimal([Offer(*draft) for draft in drafted], (tokens, 3), cost)


@given(st.lists(st.builds(Offer, st.integers(1, 5), drafts), max_size=6), any_costs)
def test_lengths_are_never_worse_than_no_draft(offers: list[Offer], cost: Cost) -> None:
    base = (2 * len(offers) + 1, len(offers) + 1)
    chosen = lengths(offers, *base, cost)
    none = rate(offers, [0] * len(offers), base, cost)
    assert all(0 <= n <= len(o.chances) for n, o in zip(chosen, offers, strict=True))
    assert rate(offers, chosen, base, cost) >= none * (1 - 1e-12)


def test_lengths_see_past_a_step_and_keep_below_a_margin() -> None:
    assert lengths([Offer(1, [0.9] * 15)], 1, 1, stepped(1.0, 0.95, 8)) == [7]
    assert lengths([Offer(1, [1.0] * 15)], 1, 1, lambda n: 1.0 if n == 1 else 2.5) == [15]
    assert lengths([Offer(1, [0.02])], 1, 1, lambda n: 1.0) == [0]
    assert lengths([Offer(4, [0.9]), Offer(1, [0.9])], 5, 2, affine(0.1, 0.1)) == [0, 1]
    assert lengths([Offer(1, [0.0, 1.0]), Offer(1, [])], 2, 2, lambda n: 1.0) == [0, 0]
    assert lengths([], 4, 4, affine(1.0, 1.0)) == []


def test_lengths_take_well_under_a_millisecond() -> None:
    dice = random.Random(0)
    times = curve([(n, 0.02 + n / 4000) for n in (*range(1, 17), 64, 90, 256, 700, 1000, 5000)])
    offers = [Offer(4, [dice.uniform(0.5, 1)] * 15) for _ in range(64)]
    took = []
    for _ in range(20):
        start = perf_counter()
        lengths(offers, 256, 64, lambda tokens: cost_of(times, tokens))
        took.append(perf_counter() - start)
    # The bound is loose for shared machines; a quadratic search would take a hundred times it.
    assert min(took) < 0.005


@given(chances, st.integers(0, 8), st.floats(0, 2), any_costs)
def test_a_models_draft_is_as_long_as_exhaustive_search_says(
    chance: float, most: int, draft_cost: float, cost: Cost
) -> None:
    def per_token(length: int) -> float:
        made = sum(chance**i for i in range(length + 1))
        return (length * draft_cost + cost(length + 1)) / made

    chosen = model_length(chance, most, draft_cost, lambda length: cost(length + 1))
    least = min(map(per_token, range(most + 1)))
    if chosen:
        assert per_token(chosen) == pytest.approx(least, rel=1e-9)
        assert least * (1 + MARGIN) <= per_token(0) * (1 + 1e-9)
    else:
        assert least * (1 + MARGIN) >= per_token(0) * (1 - 1e-9)
    assert model_length(0.02, 3, 0.0, lambda length: 1.0) == 0
