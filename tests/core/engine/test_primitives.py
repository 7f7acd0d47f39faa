"""Factors of the context, gates, mixtures, early exits: the texts of the reference decoder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from support.checked_engine import CheckedEngine, request
from support.languages import REGULAR

from marith import (
    Plan,
    Request,
    Sampling,
    Stop,
)
from marith.formula.meaning.binding import bind, resolve
from marith.formula.meaning.leaves import leaves
from marith.formula.text.trust import parse
from marith.formula.tree.terms import Observation

EARLY = "prompted(exit_layer={})".format
FORMULAS = (
    "M + jsd(M, x)*(M - x)",
    "M - 3*relu(x - M) + 0.5*C",
    "mixture(1.5 - max_prob(M), M, -0.4, x)",
    "where(first(3), mixture(-2, M, 3, x) + agreed(M, x, count=4), M)",
    "where(class_prob(C) > 0.5, x, M) + decay(4)*class_prob(C)*y",
    f"unscaled(M.min_p(0.1) - {EARLY(1)})",
    f"where(jsd(M, {EARLY(0)}) >= jsd(M, {EARLY(1)}), {EARLY(0)}, {EARLY(1)}) + 2*M",
    "M + 3*posterior(x, y)",
    "balance(x, y)*x + (1 - balance(x, y))*y",
    "self_debias(M, x, y, decay=20)",
    "(1 - sigmoid(entropy(x) - entropy(M)))*x + sigmoid(entropy(x) - entropy(M))*M",
    "(2*M + big).temperature(0.7) - 0.5*x.temperature(2)",
    "indicator(x - y)*x + (1 - indicator(x - y))*y + 0.2*A",
    "M + maximum(renyi(M, big), 0.2)*(M - big)",
    "M + 2*reward - 0.2*shares",
    "supersede(A, M + margin(x)*(M - x) + 0.4*C)",
    "M + minimum(position()/6, 1)*(x - M)",
)
GREEDY = Sampling(0.0)
shapes = pytest.mark.parametrize("formula", FORMULAS)


@pytest.fixture(scope="module")
def home(checked: CheckedEngine) -> CheckedEngine:
    """The checked, with its classifier on other scales too."""
    judge = checked.terms["C"]["formula"][:-1]
    scales = {
        name: {"formula": f'{judge}, scale="{scale}")'}
        for name, scale in (("reward", "logit"), ("shares", "probability"))
    }
    return replace(checked, terms={**checked.terms, **scales})


def brief(home: CheckedEngine, formula: str, i: int, sampling: Sampling) -> Request:
    return replace(request(home, formula, i, sampling), stop=Stop(3 + i % 6, ("zq", "ab")))


def spoken(home: CheckedEngine, asked: Request) -> tuple[str, list[int], str]:
    out = home.engine.submit(asked).result(60)
    return out.text, out.tokens, out.finish_reason


def lagging(home: CheckedEngine, formula: str) -> Plan:
    """Every term that can be named later than the one before it."""
    terms = leaves(bind(parse(formula), resolve(home.terms)))
    named = [str(term) for term in terms if not isinstance(term, Observation)]
    return Plan.factors({term: (1, 4, 3, 2)[i % 4] for i, term in enumerate(named)})


@shapes
def test_a_formula_gives_the_text_of_the_reference_decoder(
    home: CheckedEngine, formula: str
) -> None:
    """With or without drafts, for one seed; at temperature zero under any plan."""
    i = FORMULAS.index(formula)
    asked = brief(home, formula, i, Sampling(1.1, top_p=0.97, seed=i))
    expected = home.reference.decode(asked)
    for how in (None, "auto"):
        assert spoken(home, replace(asked, speculation=how)) == expected
    cold = brief(home, formula, 20 + i, GREEDY)
    expected = home.reference.decode(cold)
    for plan in (lagging(home, formula), Plan.drafts("A", length=3)):
        assert spoken(home, replace(cold, speculation=plan)) == expected


@shapes
def test_scores_are_the_log_probabilities_of_the_reference_decoder(
    home: CheckedEngine, formula: str
) -> None:
    asked, tokens = request(home, formula, 40 + FORMULAS.index(formula)), [9, 4, 1]
    want = [float(home.reference.distribution(asked, tokens[:k])[0, token])
            for k, token in enumerate(tokens)]  # fmt: skip
    scores = home.engine.score(asked.prompt, tokens, formula, home.terms)
    assert scores == pytest.approx(want, abs=2e-3)
    following = home.engine.next_logprobs(asked.prompt, formula, home.terms, tokens)
    told = home.reference.distribution(asked, tokens)[0]
    torch.testing.assert_close(following.exp(), told.exp(), atol=1e-3, rtol=0)


@pytest.mark.parametrize("how", [None, "auto", Plan.drafts("big", length=3)], ids=str)
def test_log_probabilities_are_listed_for_terms_but_not_for_observations(
    home: CheckedEngine, how: Any
) -> None:
    formula = "M + first(9)*class_prob(C)*x + 0.5*C"
    asked = request(home, formula, 3, Sampling(1.0, seed=2))
    out = home.engine.submit(replace(asked, speculation=how, logprobs=2)).result(60)
    assert out.logprobs is not None
    scores = home.engine.score(asked.prompt, out.tokens, formula, home.terms)
    assert [one.logprob for one in out.logprobs] == pytest.approx(scores, abs=1e-4)
    bound = leaves(bind(parse(formula), resolve(home.terms)))
    terms = {str(term) for term in bound if not isinstance(term, Observation)}
    for one in out.logprobs:
        assert len(one.top) == 2
        assert {*one.terms} == terms
    assert {*map(str, bound)} <= {*out.stats.terms}


@pytest.mark.parametrize("formula", FORMULAS[2:5])
@pytest.mark.parametrize("how", [None, "auto"])
def test_grammars_work_with_factors_of_the_context(
    home: CheckedEngine, formula: str, how: Any
) -> None:
    asked = replace(
        request(home, formula, 5, Sampling(1.0, seed=4)), stop=Stop(12), speculation=how,
        grammar=REGULAR.grammar,
    )  # fmt: skip
    if "agreed" in formula:  # what the grammar asks for must be allowed
        asked = replace(asked, formula=formula.replace("count=4", "count=27"))
    out = home.engine.submit(asked).result(60)
    expected = home.reference.decode(asked, allowed=lambda tokens: REGULAR.allowed(tokens, 28))
    assert (out.text, out.tokens, out.finish_reason) == expected


def test_an_early_exit_shares_its_models_pass(home: CheckedEngine) -> None:
    alone = home.engine.generate("a b c", "M", None, GREEDY, Stop(8), None)
    beside = home.engine.generate(
        "a b c", f"unscaled(M - 0.001*{EARLY(0)} - 0.001*{EARLY(1)})", None, GREEDY, Stop(8), None
    )
    assert (beside.tokens, beside.stats.passes) == (alone.tokens, alone.stats.passes)
    assert beside.stats.calls == 3 * alone.stats.calls


def test_a_factor_of_the_position_does_not_delay_a_term(home: CheckedEngine) -> None:
    """The first speaker hangs on the place: the one that checks is asked at every fourth still."""
    asked = Request(
        "a b c", "(1 + decay(16))*M + 1e-4*x", home.terms, GREEDY, Stop(40), Plan.factors({"x": 4})
    )
    out = home.engine.submit(asked).result(60)
    assert out.tokens == home.engine.submit(replace(asked, speculation=None)).result(60).tokens
    calls = {term: one.calls for term, one in out.stats.terms.items()}
    (x,) = (str(bind(parse("x"), resolve(home.terms))),)
    assert calls[x] <= len(out.tokens) // 4 + 2
