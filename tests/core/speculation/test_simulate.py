"""Algorithm 2 without models: acceptance rates determine what a plan costs."""

from __future__ import annotations

import pytest

from marith import NGram, Prompted, supersede
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Term
from marith.speculation.cost_model import Simulation, expected_tokens
from marith.speculation.execution_plan import ExecutionPlan

A = NGram(texts=("a b",))
SMALL = Prompted("small")
M, X, Y = Prompted(), Prompted("x"), Prompted("y")


def stages(formula: Formula, drafts: tuple[Term, ...] = ()) -> ExecutionPlan:
    terms = tuple(term for term in (M, X, Y) if str(term) in str(formula))
    return ExecutionPlan(formula, terms, drafts)


def rehearsed(formula: Formula, drafts: tuple[Term, ...], acceptance: float) -> Simulation:
    """Every evaluation of a language model costs one."""
    return Simulation(
        stages(formula, drafts),
        lambda before, after: acceptance,
        lambda counts: sum(not isinstance(term, NGram) for term in counts),
    )


@pytest.mark.parametrize("acceptance", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("s", [1, 4, 8])
def test_one_term_with_a_draft_costs_what_the_closed_form_says(acceptance: float, s: int) -> None:
    cost = rehearsed(supersede(A, M), (A,), acceptance).cost_per_token({M: s})
    assert cost == pytest.approx(1 / expected_tokens(acceptance, s - 1), rel=0.12)


@pytest.mark.parametrize("s", [2, 3, 5])
def test_a_first_term_is_evaluated_at_every_token_and_a_later_one_in_blocks(s: int) -> None:
    kept = rehearsed(M + X, (), 1.0).cost_per_token({X: s})
    assert kept == pytest.approx(1 + 1 / s, rel=0.05)
    refused = rehearsed(M + X, (), 0.0).cost_per_token({X: s})
    assert refused == pytest.approx(s + 1, rel=0.05)  # the paper's C + s·C₁, for one token


def test_terms_that_lag_by_their_own_factors_cost_their_own_share() -> None:
    cost = rehearsed(M + X + Y, (), 1.0).cost_per_token({X: 2, Y: 4})
    assert cost == pytest.approx(1 + 1 / 2 + 1 / 4, rel=0.05)


def test_a_stage_verifies_only_tokens_that_the_stage_before_has_verified() -> None:
    """Y falls due at every second length where X is not: two tokens, and none is drawn."""
    cost = rehearsed(M + X + Y, (), 1.0).cost_per_token({X: 2, Y: 3})
    assert cost == pytest.approx(1 + 1 / 2 + 1 / 2, rel=0.05)


def test_a_chain_asks_the_small_model_for_blocks_too() -> None:
    chain = supersede(A, supersede(SMALL, M))
    cost = rehearsed(chain, (A, SMALL), 1.0).cost_per_token({M: 8, SMALL: 4})
    assert cost == pytest.approx(1 / 8 + 1 / 8, rel=0.1)  # it need not speak where M does
