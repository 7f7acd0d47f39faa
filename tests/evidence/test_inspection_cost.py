"""Inspecting a text costs little more than scoring it; for a machine with nothing else to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tools.inspection_cost import BARS, costs


@pytest.mark.parametrize("vocab", BARS)
def test_inspecting_costs_little_more_than_scoring(
    vocab: int, report: Callable[[str], None]
) -> None:
    cost = costs(vocab, 128, 5, 10)
    report(f"{vocab:,} tokens: inspecting takes {cost.ratio:.2f} times as long as scoring")
    assert cost.ratio <= BARS[vocab]
