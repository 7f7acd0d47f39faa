"""Terms that lack tokens: silent there, so that the other terms alone decide."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.distributions import close
from support.strategies import World, formulas, speakers, spoken
from torch import Tensor

from marith.decoding.evaluate import compose, evaluate, value_of
from marith.formula.meaning.aligning import aligned
from marith.formula.meaning.leaves import leaves
from marith.formula.meaning.shares import shares_of
from marith.formula.tree.aligned import Aligned
from marith.formula.tree.nodes import Formula
from marith.formula.tree.operators import (
    intersection,
    mixture,
    relu,
    supersede,
    union,
    unscaled,
    where,
)
from marith.formula.tree.signals import first, indicator
from marith.formula.tree.terms import Classifier, Prompted, Term

m, q, r = TERMS = speakers(3)
worlds = spoken(TERMS)
LACKING = {q: (1, 3)}
SHARED = 0


def composed(formula: Formula, world: World, ends: tuple[int, ...] = ()) -> Tensor:
    rows = dict(world)
    rows[q] = world[q].clone()
    rows[q][:, [*LACKING[q]]] = -math.inf
    return evaluate(aligned(formula, LACKING, ends), rows)


@given(worlds, st.floats(0.0, 4.0))
def test_a_token_that_a_subtracted_term_lacks_keeps_its_log_odds(world: World, a: float) -> None:
    got = composed(m + a * (m - q), world)
    score = world[m] + a * (world[m] - world[q])
    score[:, [*LACKING[q]]] = world[m][:, [*LACKING[q]]]
    close(got, torch.log_softmax(score, dim=-1), 1e-4)
    assert leaves(aligned(m + a * (m - q), LACKING, ())) == leaves(m + a * (m - q))


@given(worlds)
def test_the_weights_of_the_other_terms_are_divided_by_their_own_sum(world: World) -> None:
    got = composed(2 * q + m + 3 * r, world)
    score = (2 * world[q] + world[m] + 3 * world[r]) / 6
    alone = ((world[m] + 3 * world[r]) / 4)[:, [*LACKING[q]]]
    score[:, [*LACKING[q]]] = alone
    close(got, torch.log_softmax(score, dim=-1), 1e-4)


@pytest.mark.parametrize(
    "formula",
    [q, 2 * q - 0.5 * m, q + (m - r), unscaled(q), q.min_p(0.01), union(q, q.temperature(2)),
     q + 2 * Classifier("judge", guide=m), where(first(9), q, m)],
)  # fmt: skip
def test_a_token_of_no_term_with_a_weight_is_forbidden(formula: Formula) -> None:
    world = {term: torch.log_softmax(torch.randn(2, 5), dim=-1) for term in TERMS}
    world |= {term: torch.zeros(2, 1) for term in leaves(formula) if term not in TERMS}
    for judge in (term for term in world if isinstance(term, Classifier)):
        world[judge] = torch.randn(2, 5)
    got = composed(formula, world)
    assert bool((got[:, [*LACKING[q]]] == -math.inf).all())
    assert bool((got[:, SHARED] > -math.inf).all())


ASKED: list[tuple[Formula, Callable[[World], Tensor]]] = [
    (union(q, m), lambda rows: rows[m]),
    (intersection(q, m), lambda rows: rows[m]),
    (mixture(0.5, q, 0.5, m), lambda rows: rows[m] - math.log(2)),
    (m + 3 * relu(q - m), lambda rows: rows[m]),
    (m + indicator(q - m) * (r - m), lambda rows: rows[m]),
    (unscaled(m + 0.5 * q), lambda rows: rows[m]),
    (m + q.top_k(1), lambda rows: rows[m]),
    (m + q.temperature(0.5), lambda rows: rows[m]),
    (m + where(first(9), q, r), lambda rows: rows[m]),
    (m + union(q, q), lambda rows: rows[m]),
    (supersede(q, m), lambda rows: rows[m]),
]


@pytest.mark.parametrize(("formula", "want"), ASKED)
def test_the_other_terms_decide(formula: Formula, want: Callable[[World], Tensor]) -> None:
    """The two tokens that one term lacks are as likely as the others say, but for one constant."""
    world = {term: torch.log_softmax(torch.randn(3, 6), dim=-1) for term in TERMS}
    world |= {term: torch.zeros(3, 1) for term in leaves(formula) if term not in TERMS}
    got, told = composed(formula, world), want(world)
    constants = (got - told)[:, [*LACKING[q]]]
    torch.testing.assert_close(constants[:, 0], constants[:, 1], atol=1e-5, rtol=0)


@given(formulas(), st.integers(0, 2**30))
def test_a_formula_without_such_terms_is_not_changed(formula: Formula, seed: int) -> None:
    assert aligned(formula, {}, (7,)) == formula
    assert aligned(formula, {Prompted("of another formula"): (2,)}, ()) == formula


@given(worlds)
def test_ends_are_one_event(world: World) -> None:
    ends = (0, 2)
    got = composed(m + r, world, ends)
    one = {term: row.clone() for term, row in world.items()}
    for term in (m, r):
        one[term][:, 0] = torch.logaddexp(world[term][:, 0], world[term][:, 2])
        one[term][:, 2] = -math.inf
    close(got, evaluate(m + r, one), 1e-4)
    assert shares_of(aligned(m + r, {}, (0,))) == shares_of(m + r)


def test_an_aligned_term_is_printed_as_its_term() -> None:
    formula = m - 0.5 * union(q, m).min_p(0.1)
    assert str(aligned(formula, LACKING, (0, 2))) == str(formula)
    assert str(Aligned(q, (1,)) * 2) == str(q * 2)


def test_a_row_that_is_nan_is_nan_everywhere() -> None:
    world: dict[Term, Tensor] = {term: torch.zeros(2, 4).log_softmax(-1) for term in (m, q)}
    world[q][1] = math.nan
    got = compose(aligned(m + q, LACKING, ()), world)
    assert got.isnan().all(dim=-1).tolist() == [False, True]
    assert value_of(aligned(m + q, LACKING, ()), world).silent is not None
