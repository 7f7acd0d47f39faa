"""Medians are medians, the pace leaves out the first arrival, and rounds are interleaved."""

from __future__ import annotations

from statistics import median

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.benchmark_results import FLAGS, Machine, results
from benchmarks.rounds import Sample, Variant, interleave, pace

times = st.lists(st.floats(0.01, 1e4), min_size=1, max_size=9)


@settings(max_examples=30)
@given(st.dictionaries(st.text(), times, min_size=1, max_size=4))
def test_medians_are_medians_and_ratios_are_over_the_first(taken: dict[str, list[float]]) -> None:
    samples = {name: [Sample(ms) for ms in series] for name, series in taken.items()}
    base = median(next(iter(taken.values())))
    found = results("terms", samples)
    assert found[0].ratio == 1
    for result, (name, series) in zip(found, taken.items(), strict=True):
        assert (result.name, list(result.samples)) == (name, series)
        assert result.milliseconds == median(series)
        assert result.ratio == pytest.approx(median(series) / base)
        assert result.per_second == pytest.approx(1000 / median(series))
        assert (result.first_token, result.passes_per_token) == (None, None)


def test_a_variant_may_be_compared_with_another_than_the_first() -> None:
    samples = {name: [Sample(ms)] for name, ms in (("a", 2.0), ("b", 4.0), ("c", 12.0))}
    assert [one.ratio for one in results("step", samples, {"c": "b"})] == [1, 2, 3]


@given(st.lists(st.tuples(st.floats(1e-4, 9), st.integers(1, 5)), min_size=2, max_size=9))
def test_the_pace_is_the_time_after_the_first_arrival_over_the_tokens_after_it(
    steps: list[tuple[float, int]],
) -> None:
    arrivals = [(sum(s for s, _ in steps[: i + 1]), count) for i, (_, count) in enumerate(steps)]
    later = steps[1:]
    expected = 1e3 * sum(s for s, _ in later) / sum(count for _, count in later)
    assert pace(arrivals) == pytest.approx(expected, rel=1e-6)
    assert pace(arrivals[:1]) == pytest.approx(1e3 * steps[0][0] / steps[0][1])


@pytest.mark.parametrize(("count", "rounds"), [(1, 1), (2, 3), (3, 2)])
def test_every_round_has_every_variant_once_and_the_first_round_is_not_counted(
    count: int, rounds: int
) -> None:
    order: list[tuple[int, int]] = []

    def variant(i: int) -> Variant:
        def run(turn: int) -> Sample:
            order.append((turn, i))
            return Sample(float(turn))

        return Variant(str(i), run)

    told: list[str] = []
    samples = interleave([variant(i) for i in range(count)], rounds, told.append)
    assert [turn for turn, _ in order] == sorted(list(range(rounds + 1)) * count)
    assert len(set(order)) == len(order) == len(told)
    assert {order[turn * count][1] for turn in range(rounds + 1)} == set(
        range(min(count, rounds + 1))
    )
    expected = [Sample(float(turn)) for turn in range(1, rounds + 1)]
    assert all(taken == expected for taken in samples.values())


def test_the_processor_says_what_products_use() -> None:
    flags = torch.cpu.get_capabilities()
    assert set(Machine.here().flags) == {name for name in FLAGS if flags.get(name)}
