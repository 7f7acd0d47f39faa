"""NaN ends the request from which it came, with an error that says why, and no other request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from support.held_passes import beside_nan, hold_passes, nan_at_token, scorer_of, tiny_engine

import marith
from marith import Engine, Plan, Prompted, Request, Sampling, Stop
from marith.decoding.evaluate import Evaluation, Value, node_value
from marith.errors import FormulaError, ModelError
from marith.formula.tree.nodes import Formula

FATAL = 7  # the token "f"
TERMS = {"x": "q"}
FORMULAS: list[tuple[str, Any]] = [
    ("2*x - M", None),
    ("M", None),
    ("M - 0.5*union(x, M).min_p(0.1)", None),
    ("where(position() < 99, M, x)", None),
    ("where(jsd(M, x) > 0.1, x, M)", None),
    ("2*M - 0.5*x", Plan.factors({"x": 2})),
    ("M + jsd(M, x)*(M - x)", "auto"),
]
GOOD = Request("a b c", "2*x - M", TERMS, Sampling(seed=4), Stop(12))


@pytest.mark.parametrize(("formula", "speculation"), FORMULAS)
@pytest.mark.parametrize("late", [False, True])
def test_nan_of_one_text_ends_its_request_only(formula: str, speculation: Any, late: bool) -> None:
    # The token that spoils a text stands in its prompt, or is drawn first.
    sampling = Sampling(seed=1, logit_bias={FATAL: 200.0} if late else {})
    spoiled = Request("b" if late else "f", formula, TERMS, sampling, Stop(4), speculation)
    with tiny_engine() as engine:
        alone = engine.submit(GOOD).result(30).text
        wanted = engine.submit(spoiled).result(30).tokens
        scorer_of(engine).runner.forget()
        hook = nan_at_token(engine, FATAL)
        assert beside_nan(engine, spoiled, GOOD).text == alone
        hook.remove()
        # No text continues the keys that were NaN.
        assert engine.submit(spoiled).result(30).tokens == wanted


@pytest.mark.parametrize("ends", ["cancel", "drop"])
def test_nan_of_a_text_that_leaves_harms_no_other(ends: str) -> None:
    prompt = "b c d " * 20 + "f"
    with tiny_engine() as engine:
        wanted = engine.next_logprobs(prompt)
        scorer_of(engine).runner.forget()
        hook = nan_at_token(engine, FATAL)
        with hold_passes(engine):
            leaving = engine.submit(Request(prompt, stop=Stop(4), speculation=None))
            beside = engine.submit(GOOD)
            if ends == "cancel":
                leaving.cancel()
            else:
                del leaving
        assert beside.result(30).tokens
        hook.remove()
        torch.testing.assert_close(engine.next_logprobs(prompt), wanted, atol=1e-4, rtol=0)


def test_nan_of_a_query_is_an_error() -> None:
    with tiny_engine() as engine:
        nan_at_token(engine, FATAL)
        with pytest.raises(ModelError, match="NaN"):
            engine.next_logprobs("f")
        with hold_passes(engine):
            beside, bad = engine.submit_scoring("a", "c d"), engine.submit_scoring("a", "c f d")
        with pytest.raises(ModelError, match="NaN"):
            bad.result(30)
        assert torch.tensor(beside.result(30).logprobs).isfinite().all()


@dataclass(frozen=True, slots=True, eq=False)
class Broken(Formula):
    """A node of an application whose value is NaN."""


@node_value.register
def _evaluate_broken(_: Broken, at: Evaluation) -> Value:
    return Value(torch.full_like(next(iter(at.rows.values())), torch.nan), 0.0)


def test_nan_that_no_model_computed_is_an_error_of_the_formula() -> None:
    asked = Request("a", Prompted() + Broken(), sampling=Sampling(seed=1), stop=Stop(2))
    with tiny_engine() as engine:
        with pytest.raises(FormulaError, match="write smaller factors"):
            engine.submit(asked).result(30)
        with pytest.raises(FormulaError, match="write smaller factors"):
            engine.next_logprobs("a", asked.formula)


def test_terms_without_a_common_token_are_an_error_for_each_kind_of_call() -> None:
    formula = "M.top_k(1) + (0.5*x).top_k(1)"
    with tiny_engine() as engine:
        disjoint = _disjoint(engine)
        calls = (
            lambda: engine.generate("a", formula, disjoint, stop=Stop(2), timeout=30),
            lambda: engine.next_logprobs("a", formula, disjoint),
            lambda: engine.score("a", "b c", formula, disjoint),
        )
        for call in calls:
            with pytest.raises(marith.FormulaError, match="no token is allowed by every part"):
                call()


def _disjoint(engine: Engine) -> dict[str, str]:
    """Return a term whose likeliest token differs from that of the bare model."""
    bare = int(engine.next_logprobs("a").argmax())
    for prompt in ("q", "r s", "t u v", "z"):
        if int(engine.next_logprobs("a", "x", {"x": prompt}).argmax()) != bare:
            return {"x": prompt}
    raise AssertionError("every prompt has the same likeliest token")
