"""How many candidates a classifier judges: the fewest whose probability reaches `coverage`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import speakers, spoken
from torch import Tensor

from marith.decoding.evaluate import candidates_of, evaluate
from marith.errors import FormulaError
from marith.formula.tree.terms import Classifier, Term

a, b = TERMS = speakers(2)
GUIDE = a - 0.3 * b


@given(spoken(TERMS, holes=True), st.integers(1, 20), st.floats(0, 1, exclude_min=True))
def test_candidates_are_the_smallest_set_with_the_coverage(
    world: Mapping[Term, Tensor], count: int, coverage: float
) -> None:
    most = candidates_of(GUIDE, world, count)
    found = candidates_of(GUIDE, world, count, coverage)
    probabilities = evaluate(GUIDE, world).double().exp()
    for row, tokens, all_of_them in zip(probabilities, found, most, strict=True):
        mass = [float(row[token]) for token in tokens]
        assert tokens == all_of_them[: len(tokens)]
        assert min(mass) > 0
        rest = sum(float(row[token]) > 0 for token in all_of_them) - len(tokens)
        if coverage == 1.0:  # which float32 may reach before the last: it means all of them
            assert rest == 0
            continue
        assert math.fsum(mass[:-1]) < coverage + 1e-9, "one fewer would have been enough"
        assert rest == 0 or math.fsum(mass) > coverage - 1e-9, "too few"


def test_each_position_has_its_own_number_of_candidates() -> None:
    sure = torch.tensor([[0.97, 0.01, 0.01, 0.01], [0.27, 0.20, 0.30, 0.23]]).log()
    assert candidates_of(a, {a: sure}, 4, 0.9) == [[0], [2, 0, 3, 1]]
    assert candidates_of(a, {a: sure}, 3, 0.9) == [[0], [2, 0, 3]]
    assert candidates_of(a, {a: sure}, 4, 0.5) == [[0], [2, 0]]


def test_impossible_tokens_are_no_candidates() -> None:
    world = torch.tensor([[0.5, 0.0, 0.5 - 1e-7, 1e-7]]).log()
    assert candidates_of(a, {a: world}, 4, 1.0) == [[0, 2, 3]]
    assert candidates_of(a.top_k(2), {a: world}, 3) == [[0, 2]]
    assert candidates_of(a, {a: world}, 4) == [[0, 2, 3]]


@pytest.mark.parametrize("coverage", [0, -0.1, 1.01, math.nan, math.inf, True, "0.9"])
def test_a_coverage_outside_of_0_to_1_is_refused_with_its_value(coverage: Any) -> None:
    with pytest.raises(FormulaError, match="coverage is a number above 0 and at most 1") as caught:
        Classifier("x", coverage=coverage)
    assert repr(coverage) in str(caught.value)
