"""Factors: operators build nodes, fold numbers, and refuse other types."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import Parts, plain_leaves, walk

from marith.errors import FormulaError
from marith.formula.meaning.binding import bind
from marith.formula.text.parsing import parse_text
from marith.formula.tree.factors import Arithmetic, Varying, factor, maximum, minimum, sigmoid
from marith.formula.tree.nodes import Name, Scaled
from marith.formula.tree.printing import locate
from marith.formula.tree.signals import entropy, jsd, max_prob
from marith.formula.tree.terms import Prompted

M, a, b = Name("M"), Name("a"), Name("b")
x, y = jsd(M, a), max_prob(M)
powers = st.sampled_from([-2.0, -0.5, 0.25, 4.0])  # whose products are exact


@st.composite
def varying(draw: st.DrawFn) -> Varying:
    return Parts(draw, plain_leaves, 6).varying()


@given(varying())
def test_a_factor_reads_back_as_itself(one: Varying) -> None:
    scaled = parse_text(f"({one})*M")
    assert scaled == one * M
    assert isinstance(scaled, Scaled)
    assert str(scaled) == str(one * M)
    assert hash(scaled) == hash(one * M)
    assert pickle.loads(pickle.dumps(one)) == one


@given(varying(), powers, powers)
def test_numbers_in_front_of_a_factor_are_folded(one: Varying, n: float, m: float) -> None:
    assert n * (m * one) == (n * m) * one == m * (one * n)
    assert (n * one) * M == n * (one * M)
    assert 1 * one == +one == one == -(-one)
    assert one / n == (1 / n) * one


@given(varying(), varying())
def test_a_number_stands_in_front_of_a_product_once(one: Varying, other: Varying) -> None:
    product = (2 * one) * (4 * other)
    assert product == 8 * (one * other)
    assert isinstance(product, Arithmetic)
    right = product.right
    is_product = isinstance(right, Arithmetic) and right.operator == "*"
    assert not (is_product and isinstance(right.left, float))  # `0 - a` has a number, too


@given(varying(), varying())
def test_factors_that_follow_each_other_are_one(one: Varying, other: Varying) -> None:
    scaled = one * (other * M)
    assert isinstance(scaled, Scaled)
    assert scaled.of == M
    assert scaled == (one * other) * M


@given(varying())
def test_names_in_a_factor_are_bound(one: Varying) -> None:
    formula = one * M
    terms = {n.name: Prompted(n.name) for n in walk(formula) if isinstance(n, Name)}
    bound = bind(formula, terms)
    assert not any(isinstance(node, Name) for node in walk(bound))
    assert bind(bound, {}) == bound
    assert {*terms.values()} <= {*walk(bound)}


CASES = [
    (x * M, "jsd(M, a)*M"),
    (2 * x * M, "2*jsd(M, a)*M"),
    (-x * M, "-jsd(M, a)*M"),
    (M - x * a, "M - jsd(M, a)*a"),
    (M - 2 * (x + 1) * a, "M - 2*(jsd(M, a) + 1)*a"),
    (M / (1 + x), "1/(1 + jsd(M, a))*M"),
    ((1 - x) * M + x * a, "(1 - jsd(M, a))*M + jsd(M, a)*a"),
    (x * y * M, "jsd(M, a)*max_prob(M)*M"),
    (x * (1 - y) * M, "jsd(M, a)*(1 - max_prob(M))*M"),
    (x / y / 2 * M, "0.5*(jsd(M, a)/max_prob(M))*M"),
    ((x - (y - 1)) * M, "(jsd(M, a) - (max_prob(M) - 1))*M"),
    (maximum(x, 0.5) * M, "maximum(jsd(M, a), 0.5)*M"),
    (minimum(-x, sigmoid(y)) * M, "minimum(-jsd(M, a), sigmoid(max_prob(M)))*M"),
]


@pytest.mark.parametrize(("formula", "text"), CASES, ids=[text for _, text in CASES])
def test_a_factor_is_written_as_on_paper(formula: Any, text: str) -> None:
    assert str(formula) == text
    assert parse_text(text) == formula


def test_a_factor_is_found_in_the_text() -> None:
    inner = entropy(a - b)
    text, start, end = locate(M - 2 * (1 + inner) * b, inner)
    assert text[start:end] == "entropy(a - b)"


def test_a_comparison_has_no_truth_value() -> None:
    with pytest.raises(FormulaError, match="use where"):
        bool(x > 0.5)
    assert str(x >= y) == "jsd(M, a) >= max_prob(M)"
    assert parse_text("where(0.5 < jsd(M, a), M, a)") != parse_text("where(jsd(M, a) > 0.5, M, a)")


BAD: list[tuple[Callable[[], Any], str]] = [
    (lambda: x + M, r"jsd\(M, a\) cannot be an operand of '\+'"),
    (lambda: M - x, r"jsd\(M, a\) cannot be an operand of '-'"),
    (lambda: M * (x > 1), r"jsd\(M, a\) > 1 cannot be an operand of '\*'"),
    (lambda: x / 0, "cannot be divided by zero"),
    (lambda: 1e300 * (1e300 * x), "finite"),
    (lambda: x > "1", "compared with is a number or a function of the context, not '1'"),
    (lambda: maximum(x), "at least 2 factors, not 1"),
    (lambda: minimum(x, M), "minimum is .*, not M"),  # type: ignore[arg-type]  # wrong on purpose
    (lambda: sigmoid(2), "such as entropy.M., not 2"),
    (lambda: factor(True), "not True"),
    (lambda: jsd(M, x), r"formulas, not jsd\(M, a\)"),  # type: ignore[arg-type]  # wrong on purpose
]


@pytest.mark.parametrize(("build", "says"), BAD, ids=range(len(BAD)))
def test_an_invalid_factor_is_refused_with_its_value(build: Callable[[], Any], says: str) -> None:
    with pytest.raises(FormulaError, match=says):
        build()


FAULTS = [
    ("M + jsd(M, a)", "M + jsd(M, a)", "cannot be an operand"),
    (
        "jsd(M, a)",
        "jsd(M, a)",
        r"the factor jsd\(M, a\), .*: write, for example, jsd",
    ),
    ("M + jsd(M)*a", "jsd(M)", "second"),
    ("M + first(1.5)*a", "first(1.5)", "not 1.5"),
    ("M*(jsd(M, a) > 1)", "jsd(M, a) > 1", r"takes: write where\(jsd\(M, a\) > 1, M\.t"),
    ("where(1 < 2, M, a)", "1 < 2", "compares factors, and these are numbers; write, for ex"),
    ("where(jsd(M, a) == 1, M, a)", "jsd(M, a) == 1", "by >, >=, < or <="),
    (
        "where(M > 1, M, a)",
        "M > 1",
        r"compares factors, and M is a .*, such as max_prob\(M\) > 0.5",
    ),
    ("where(0 < jsd(M, a) < 1, M, a)", "0 < jsd(M, a) < 1", "a condition has one comparison"),
    ("where(M, a, b)", "where(M, a, b)", r"entropy\(M\) > 2, not M"),
    ("M + jsd(M, a)**2*a", "**", "not an operator"),
]


@pytest.mark.parametrize(("text", "part", "says"), FAULTS, ids=[text for text, _, _ in FAULTS])
def test_a_fault_in_a_factor_has_carets_right_under_it(text: str, part: str, says: str) -> None:
    with pytest.raises(FormulaError, match=says) as caught:
        parse_text(text)
    *_, quoted, carets = str(caught.value).split("\n")
    assert quoted[carets.index("^") : len(carets)] == part
