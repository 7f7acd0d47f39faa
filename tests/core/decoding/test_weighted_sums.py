"""Sums of terms whose factors are numbers equal what `evaluate` computes node by node."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from support.step_tensors import Waits
from support.strategies import speakers, spoken
from torch import Tensor

from marith.decoding.evaluate import Evaluation, Value, compose, evaluate, node_value, value_of
from marith.decoding.sampling import drawn, warp
from marith.formula.meaning.shares import shares_of
from marith.formula.tree.nodes import Formula
from marith.formula.tree.operators import union, where
from marith.formula.tree.signals import max_prob
from marith.formula.tree.terms import Classifier, Prompted, Term
from marith.request.sampling import Sampling

TERMS = speakers(3)
a, b, c = TERMS
EPSILON = torch.finfo(torch.float32).eps


class Sharpened(Prompted):
    """A term of an application, whose value is not its row."""

    __slots__ = ()


@node_value.register
def _evaluate_sharpened(term: Sharpened, at: Evaluation) -> Value:
    return Value.of(torch.log_softmax(2 * at.rows[term], dim=-1))


OWN = Sharpened("q")
FACTORS = st.floats(-2.0, 2.0).map(lambda factor: round(factor, 3))
WORLDS = spoken(TERMS, holes=True)


@st.composite
def sums(draw: st.DrawFn) -> Formula:
    first, second, third, whole = draw(FACTORS), draw(FACTORS), draw(FACTORS), draw(FACTORS)
    inner = first * b + second * c
    assume(1 + whole * (first + second) + third > 0.1)
    return a + whole * inner + third * a


@given(sums(), WORLDS)
def test_a_sum_of_terms_is_what_its_nodes_give(f: Formula, world: Mapping[Term, Tensor]) -> None:
    value = value_of(f, world)
    assume(value.allowed is None or bool(value.allowed.any(dim=-1).all()))
    torch.testing.assert_close(evaluate(f, world), value.logprobs(), atol=2e-5, rtol=1e-4)


@given(sums(), WORLDS)
def test_a_device_that_must_not_wait_gets_the_same_rows(
    f: Formula, world: Mapping[Term, Tensor]
) -> None:
    here = compose(f, world)
    with Waits() as waits:
        there = compose(f, world)
    assert waits.count == 0
    torch.testing.assert_close(there, here, equal_nan=True, atol=2e-5, rtol=1e-4)


@given(WORLDS)
def test_a_position_without_an_allowed_token_is_nan_and_no_other(
    world: Mapping[Term, Tensor],
) -> None:
    rows = {term: row.clone() for term, row in world.items()}
    rows[a][0], rows[a][0, 1] = -torch.inf, 0.0
    rows[b][0, 1] = -torch.inf
    others = value_of(a - 0.5 * b, rows).allowed
    assume(others is None or bool(others[1:].any(dim=-1).all()))
    composed = compose(a - 0.5 * b, rows)
    assert composed.isnan().all(dim=-1).tolist() == [True, *[False] * (len(composed) - 1)]


def test_shares_are_factors_divided_by_their_sum_and_a_classifier_has_no_weight() -> None:
    judge = Classifier("judge")
    assert shares_of(2 * a - 0.5 * (b - a) + 3 * judge) == {a: 1.25, b: -0.25, judge: 1.5}
    assert shares_of(a) == {a: 1.0}
    assert shares_of(a + 0 * b) == {a: 1.0}
    assert shares_of(a + union(a, b)) is None
    assert shares_of(a - b) is None


@given(st.floats(-1.5, 0.99), st.integers(0, 99))
def test_the_error_is_that_of_float32_times_the_shares(factor: float, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    rows = {term: (8 * torch.randn(2, 50, generator=draw)).log_softmax(-1) for term in (a, b)}
    formula = a - factor * b
    exact = value_of(formula, {term: row.double() for term, row in rows.items()}).logprobs()
    shares = shares_of(formula)
    assert shares is not None
    size = float(sum(map(abs, shares.values())) * max(row.abs().max() for row in rows.values()))
    assert float((compose(formula, rows) - exact).abs().max()) <= 2 * EPSILON * (size + 1)


def test_a_term_of_an_application_keeps_its_own_value() -> None:
    rows = {term: torch.randn(2, 5).log_softmax(-1) for term in (OWN, a)}
    sharpened = torch.log_softmax(2 * rows[OWN], dim=-1)
    torch.testing.assert_close(compose(OWN, rows), sharpened)
    whole = torch.log_softmax((sharpened + rows[a]) / 2, dim=-1)
    torch.testing.assert_close(compose(OWN + a, rows), whole)


def test_a_row_that_a_condition_does_not_select_counts_for_nan() -> None:
    rows = {a: torch.randn(2, 5).log_softmax(-1), b: torch.full((2, 5), torch.nan)}
    rows[b][1] = rows[a][1]
    for formula in (where(max_prob(a) > 0, a, b), a + 0 * b, union(a, a)):
        assert compose(formula, rows).isnan().all(dim=-1).tolist() == [True, False]


def test_a_formula_of_one_term_is_the_row_of_that_term() -> None:
    row = torch.randn(2, 5).log_softmax(-1)
    assert compose(a, {a: row}) is row


@pytest.mark.parametrize("vocab", [257, 4097, 32_003])
def test_a_row_has_the_same_bits_alone_and_among_others(vocab: int) -> None:
    """The draws of a seed depend on them: see decision 32."""
    draw = torch.Generator().manual_seed(vocab)
    rows = {term: torch.randn(7, vocab, generator=draw).log_softmax(-1) for term in TERMS}
    formula, sampling = a - 0.3 * b + 0.7 * c, Sampling(temperature=0.7, min_p=0.01)
    together = warp(compose(formula, rows), sampling).exp()
    chances = torch.rand(7, generator=draw, dtype=torch.float64)
    tokens = drawn(together, chances)
    for i in range(7):
        own = {term: row[i, None].clone() for term, row in rows.items()}
        alone = warp(compose(formula, own), sampling).exp()
        assert torch.equal(alone[0], together[i])
        assert drawn(alone, chances[i, None]).tolist() == [int(tokens[i])]
