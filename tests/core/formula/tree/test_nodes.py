"""Operators build flat sums and folded numbers, and refuse other types."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import factors, formulas, walk

from marith.errors import FormulaError
from marith.formula.text.parsing import parse_text
from marith.formula.tree.nodes import Formula, Name, Scaled, Sum
from marith.formula.tree.operators import intersection, supersede, union, unscaled
from marith.formula.tree.terms import Prompted

M, a, b, c = Name("M"), Name("a"), Name("b"), Name("c")


@given(formulas(), formulas(), formulas())
def test_sums_are_flat(f: Formula, g: Formula, h: Formula) -> None:
    assert (f + g) + h == f + (g + h)
    total = f + g + h
    assert isinstance(total, Sum)
    assert not any(isinstance(member, Sum) for member in total.members)


@given(formulas())
def test_no_scaled_formula_holds_another_or_the_factor_one(f: Formula) -> None:
    for node in walk(2.0 * (0.5 * f) - 3 * f):
        if isinstance(node, Scaled):
            assert not isinstance(node.of, Scaled)
            assert node.factor != 1.0


@given(factors, factors)
def test_numbers_are_folded(first: float, second: float) -> None:
    assert first * (second * M) == (first * second) * M
    assert M * first == first * M


@given(formulas())
def test_signs_and_ones_vanish(f: Formula) -> None:
    assert -(-f) == f
    assert +f == f
    assert 1 * f == f
    assert f / 1 == f
    assert f * 2 / 2 == f


def test_zero_has_one_sign() -> None:
    assert str(-0.0 * M) == "0*M"
    assert str(-(0 * M)) == "0*M"


@given(formulas())
def test_equal_formulas_hash_alike(f: Formula) -> None:
    twin = parse_text(str(f))
    assert twin == f
    assert hash(twin) == hash(f)
    assert len({f, twin}) == 1


def test_different_formulas_differ() -> None:
    trees = [M, a, M + a, a + M, M - a, 2 * M, union(M, a), intersection(M, a), supersede(M, a),
             unscaled(M), M.top_k(1), M.top_p(1.0), M.min_p(1.0), Prompted("M")]  # fmt: skip
    assert len(set(trees)) == len(trees)


def test_formulas_are_frozen_and_have_no_dict() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        M.name = "other"  # type: ignore[misc]  # wrong on purpose
    assert not hasattr(Prompted("x"), "__dict__")
    assert not hasattr(M + a, "__dict__")


BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: M * a, r"multiplied only by a number or a factor, .*; write M \+ a$"),
    (lambda: M / a, r"divided only by a number or a factor, .*; write 2\*M - a$"),
    (lambda: M + 1, "1 cannot be an operand"),
    (lambda: 1 - M, "1 cannot be an operand"),
    (lambda: M - "x", "'x' cannot be an operand"),
    (lambda: M * True, "True cannot be an operand"),
    (lambda: M * math.nan, "finite"),
    (lambda: M * 10**400, "finite"),
    (lambda: M / 0, "divided by zero"),
    (lambda: M.top_k(0), "top_k"),
    (lambda: M.top_k(10**16), str(10**16)),
    (lambda: M.top_p(0), "top_p"),
    (lambda: M.top_p(1.1), "top_p"),
    (lambda: M.min_p(-1), "min_p"),
    (lambda: union(M), "at least 2"),
    (lambda: supersede(M, "x"), "not 'x'"),  # type: ignore[arg-type]  # wrong on purpose
    (lambda: unscaled(3), "not 3"),  # type: ignore[arg-type]  # wrong on purpose
    (lambda: Name("two words"), "two words"),
    (lambda: Name("lambda"), "lambda"),
    (lambda: Name(""), "plain word"),
    (lambda: Name("ﬁ"), "plain word"),  # which Python would rewrite
    (lambda: Name(5), "5"),  # type: ignore[arg-type]  # wrong on purpose
]


@pytest.mark.parametrize(("build", "says"), BAD, ids=range(len(BAD)))
def test_an_invalid_part_is_refused_with_its_value(build: Callable[[], Any], says: str) -> None:
    with pytest.raises(FormulaError, match=says):
        build()


@given(st.none() | st.booleans() | st.text() | st.lists(st.integers()) | st.complex_numbers())
def test_operators_refuse_other_types(stranger: Any) -> None:
    for combine in (lambda: M + stranger, lambda: stranger - M, lambda: M * stranger,
                    lambda: stranger * M, lambda: M / stranger):  # fmt: skip
        if isinstance(stranger, list | str):
            with pytest.raises((FormulaError, TypeError)):
                combine()
        else:
            with pytest.raises(FormulaError):
                combine()
