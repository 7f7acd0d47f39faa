"""Numbers of numpy and torch are accepted, and other values are refused in a sentence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from marith import Classifier, NGram, Prompted, agreed, first, jsd
from marith.errors import RequestError, shown
from marith.formula.text.parsing import parse_text
from marith.formula.tree.factors import plain
from marith.request.checks import finite, whole

WHOLE = [7, np.int8(7), np.uint64(7), np.array(7), torch.tensor(7), torch.tensor([7, 8])[0]]
NUMBERS = [*WHOLE, 7.0, np.float16(7), np.float32(7), np.float64(7), torch.tensor(7.0)]
NEITHER: list[Any] = [
    True, np.bool_(1), torch.tensor(True), "7", None, 7j, np.complex64(7), [7], np.array([7]),
    torch.tensor([7]), np.str_("7"), math.nan, math.inf, np.float32(math.nan),
]  # fmt: skip


@pytest.mark.parametrize("value", NUMBERS, ids=repr)
def test_a_number_is_a_python_float(value: Any) -> None:
    assert finite(value) == 7
    assert type(finite(value)) is float
    assert type(plain(value)) in (int, float)


@pytest.mark.parametrize("value", WHOLE, ids=repr)
def test_a_whole_number_is_a_python_int(value: Any) -> None:
    assert whole("it", value, 1, 7) == 7
    assert type(whole("it", value, 1)) is int
    with pytest.raises(RequestError, match="it must be a whole number of at least 8, not"):
        whole("it", value, 8)


@pytest.mark.parametrize("value", [*NEITHER, 10**400, -(10**9000)], ids=lambda v: shown(v)[:20])
def test_a_value_that_is_no_number_is_refused(value: Any) -> None:
    assert finite(value) is None
    with pytest.raises(RequestError, match="it must be a whole number from 1 to 9, not"):
        whole("it", value, 1, 9)


@pytest.mark.parametrize("half", [np.float32(0.5), torch.tensor(0.5)], ids=repr)
def test_scalars_of_numpy_and_torch_are_factors(half: Any) -> None:
    bare, other = Prompted(), Prompted("b")
    for formula, same in (
        (half * bare, 0.5 * bare),
        (bare * half - half * other, bare * 0.5 - 0.5 * other),
        (bare / half, bare / 0.5),
        (jsd(bare, other) * half * bare, jsd(bare, other) * 0.5 * bare),
        (bare.temperature(half), bare.temperature(0.5)),
        (bare.min_p(half), bare.min_p(0.5)),
    ):
        assert formula == same
        assert str(formula) == str(same)


@pytest.mark.parametrize("seven", WHOLE[1:], ids=repr)
def test_whole_numbers_of_formulas_are_pythons_own(seven: Any) -> None:
    def made(count: Any) -> list[Any]:
        bare = Prompted()
        return [
            bare.top_k(count),
            agreed(bare, bare, count=count),
            first(count) * bare,
            Prompted(exit_layer=count),
            Classifier("c", candidates=count),
            NGram(texts=["a"], order=count),
        ]

    assert made(seven) == made(7)
    assert all(parse_text(str(formula)) == formula for formula in made(seven))
