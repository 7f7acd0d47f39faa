"""Under a grammar each token has the composed probability among the tokens that may follow."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import count, product

import pytest
from support.drawn_cases import (
    ADAPTS,
    CUT_DRAFTED,
    ENOUGH,
    HELD,
    ONLINE,
    PROMPTS,
    STAGED,
    TWENTIETH,
)
from support.languages import NESTED, REGULAR, Language
from support.small_engine import END, FlatTimes, SmallEngine, answers, assume_times

from marith import Plan, Request, Sampling, Stop
from marith.engine.jobs import generation

WIRED = (STAGED, ONLINE, CUT_DRAFTED)


@pytest.mark.parametrize("name", WIRED)
def test_every_token_has_the_composed_probability_among_allowed_tokens(
    small: SmallEngine, name: str
) -> None:
    drawn, _ = HELD[name].require_distribution(small, TWENTIETH)
    assert (drawn.truths == 0).sum(dim=-1).double().mean() >= 3  # of eight: the mask does cut
    assert float((drawn.tokens == END).double().mean()) > 0.01


def test_with_adaptive_drafts_tokens_have_the_same_probabilities(
    small: SmallEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without seeds, so that drafts are kept by chance; with them, see below, texts are equal."""
    monkeypatch.setattr(generation, "fresh_seed", partial(next, count()))
    assume_times(small.engine, FlatTimes, monkeypatch)
    unseeded = replace(ADAPTS.sampling, seed=None)
    requests = [replace(one, sampling=unseeded) for one in ADAPTS.requests(small, TWENTIETH)]
    done = answers(small, requests)
    drawn = ADAPTS.draws(small, requests, done)
    assert len(drawn.tokens) >= ENOUGH * TWENTIETH
    assert sum(one.stats.accepted for one in done) >= 1000 * TWENTIETH
    # lengths hang on what came first, so that each run draws anew: a bar that luck does not fail
    assert min(drawn.of_marginals(), drawn.of_pairs()) > 1e-5


def seeded(small: SmallEngine, number: int, **options: object) -> tuple[Request, Language | None]:
    """A request of a seed's own kind: either grammar, or none."""
    language = (REGULAR, NESTED, None)[number % 3]
    request = Request(
        PROMPTS[number % len(PROMPTS)],
        ("x - 0.6*y + M", "supersede(small, x) - 0.7*union(x, y) + z", "M + x")[number // 2 % 3],
        {name: small.terms[name] for name in ("x", "y", "z", "small")},
        Sampling(0.9, top_p=(1.0, 0.9)[number % 2], seed=number, repetition_penalty=1.1),
        Stop(4 + number % 17, ("fe", "cc") if number % 5 == 0 else ()),
        grammar=language.grammar if language else None,
    )
    return replace(request, **options), language  # type: ignore[arg-type]  # fields of a request


def expected(small: SmallEngine, request: Request, language: Language | None) -> tuple[object, ...]:
    allowed = language.allowed if language else None
    return small.reference.decode(request, allowed=allowed)


@pytest.mark.parametrize("number", range(9))
def test_with_a_seed_adaptive_drafts_give_the_text_of_the_reference(
    small: SmallEngine, number: int
) -> None:
    request, language = seeded(small, number)
    want = expected(small, request, language)
    for how in ("auto", None):
        out = small.engine.submit(replace(request, speculation=how)).result(60)  # type: ignore[arg-type]
        assert (out.text, out.tokens, out.finish_reason) == want


PLANS = (
    None,
    "auto",
    Plan.factors({"x": 1, "y": 3, "M": 4}),
    Plan.drafts("small", length=3),
    Plan.drafts("small.top_k(1)", length=3),
    Plan.drafts("ngram(order=3, online=True)", length=5),
)


@pytest.mark.parametrize("language", [REGULAR, NESTED])
def test_at_temperature_zero_no_plan_changes_the_text(
    small: SmallEngine, language: Language
) -> None:
    terms = {name: small.terms[name] for name in ("x", "y", "small")}
    for prompt in PROMPTS[::2]:
        asked = Request(
            prompt, "x - 0.6*y + M", terms, Sampling(0.0), Stop(16), grammar=language.grammar
        )
        want = expected(small, asked, language)
        requests = [replace(asked, speculation=plan) for plan in PLANS]  # type: ignore[arg-type]  # a table
        for plan, out in zip(PLANS, answers(small, requests), strict=True):
            assert (out.text, out.tokens, out.finish_reason) == want, plan


def test_a_cut_does_not_apply_where_it_leaves_a_grammar_nothing(small: SmallEngine) -> None:
    terms = {name: small.terms[name] for name in ("x", "y", "small")}
    uncut = []
    for kept, prompt in product((1, 2, 4), PROMPTS[::2]):
        formula = f"(x - 0.6*y + M).top_k({kept})"
        asked = Request(prompt, formula, terms, Sampling(0.0), Stop(16), grammar=REGULAR.grammar)
        want = expected(small, asked, REGULAR)
        requests = [replace(asked, speculation=plan) for plan in PLANS]  # type: ignore[arg-type]  # a table
        done = answers(small, requests)
        for plan, out in zip(PLANS, done, strict=True):
            assert (out.text, out.tokens, out.finish_reason) == want, plan
        assert len({out.stats.uncut for out in done}) == 1
        uncut.append(done[0].stats.uncut)
    assert min(uncut) == 0 < max(uncut) < 16


def test_log_probabilities_of_an_uncut_token_are_finite(small: SmallEngine) -> None:
    terms = {name: small.terms[name] for name in ("x", "y")}
    sampling, stop = Sampling(0.0), Stop(16)
    asked = Request(
        "c", "(x - 0.6*y + M).top_k(1)", terms, sampling, stop, grammar=REGULAR.grammar, logprobs=1
    )
    out = small.engine.submit(asked).result(60)
    assert out.stats.uncut
    assert all(token.logprob > -math.inf for token in out.logprobs)


def test_texts_with_and_without_grammars_do_not_change_one_another(small: SmallEngine) -> None:
    """Some join late, some are given up half way; those with a seed and a plan too."""
    asked = [seeded(small, number) for number in range(12)]
    asked += [
        (replace(one, formula="x - 0.6*y + M", speculation=PLANS[2 + i % 3]), None)  # type: ignore[arg-type]
        for i, (one, _) in enumerate(asked[:6])
    ]
    alone = [small.engine.submit(one).result(60).tokens for one, _ in asked]
    tickets = []
    for i, (one, _) in enumerate(asked):
        given_up = small.engine.submit(replace(one, stop=Stop(500)))
        tickets.append(small.engine.submit(one))
        if i % 3:
            next(iter(given_up))
        given_up.cancel()
    assert [ticket.result(60).tokens for ticket in tickets] == alone
