"""Under a grammar every token is drawn from what the formula says of the tokens that may follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count, product

import pytest
import torch
from support.drafting import END, Flat, Small, answers
from support.drawn_cases import ADAPTS, EIGHTH, ENOUGH, HELD, ONLINE, PROMPTS, STAGED
from support.languages import NESTED, REGULAR, Language
from torch import Tensor

from marith import Plan, Request, Sampling, Stop
from marith.decoding.cuts import keep
from marith.decoding.matcher import Matcher
from marith.decoding.sampling import warp
from marith.engine.jobs import generation
from marith.engine.jobs.generation import AllowedTokens
from marith.errors import FormulaError
from marith.speculation import verify as verification
from marith.speculation.auto import Controller
from marith.speculation.verify import Check
from marith.tensor_rows import Row, gather, rows_of

WIRED = (STAGED, ONLINE)


@pytest.mark.parametrize("name", WIRED)
def test_every_token_is_drawn_from_what_may_follow(small: Small, name: str) -> None:
    drawn, _ = HELD[name].hold(small, EIGHTH)
    assert (drawn.truths == 0).sum(dim=-1).double().mean() >= 3  # of eight: the mask does cut
    assert float((drawn.tokens == END).double().mean()) > 0.01


def test_what_adapts_draws_every_token_from_what_may_follow(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without seeds, so that drafts are kept by chance; with them, see below, texts are equal."""
    monkeypatch.setattr(generation, "fresh_seed", partial(next, count()))
    monkeypatch.setattr(small.engine._thread.scheduler, "controller", Controller(Flat))
    unseeded = replace(ADAPTS.sampling, seed=None)
    requests = [replace(one, sampling=unseeded) for one in ADAPTS.requests(small, EIGHTH)]
    done = answers(small, requests)
    drawn = ADAPTS.draws(small, requests, done)
    assert len(drawn.tokens) >= ENOUGH * EIGHTH
    assert sum(one.stats.accepted for one in done) >= 1000 * EIGHTH
    # lengths hang on what came first, so that each run draws anew: a bar that luck does not fail
    assert min(drawn.of_marginals(), drawn.of_pairs()) > 1e-5


def shifted(self: Matcher, text: Sequence[int], places: Sequence[int]) -> Tensor:
    """What may stand one token earlier."""
    rows = right(self, text, [max(0, place - 1) for place in places])
    self.reached = len(text)  # the engine would notice by itself
    return rows


def first_alone(self: Matcher, text: Sequence[int], places: Sequence[int]) -> Tensor:
    """The mask at the first of the drafted positions, and none at the others."""
    rows = right(self, text, places)
    rows[1:] = True
    self.reached = len(text)
    return rows


def too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mask after the nucleus has been cut, which then holds less than its share."""
    masks: dict[int, Tensor] = {}

    def later(
        self: AllowedTokens, rows: Tensor, text: Sequence[int], places: Sequence[int]
    ) -> Tensor:
        allowed = self._grammatical(text, places)
        assert allowed is not None
        masks[id(rows)] = allowed
        return rows

    def warped(checks: Sequence[Check]) -> list[Row]:
        targets: list[Row] = []
        for check in checks:
            composed = gather(check.rows)
            allowed = masks.pop(id(check.rows[0][0]))
            rows = warp(composed, check.sampling).masked_fill(~allowed, -torch.inf)
            left = (rows > -torch.inf).any(dim=-1, keepdim=True)
            lawful = keep(composed, allowed)
            targets += rows_of(torch.where(left, torch.log_softmax(rows, -1), lawful))
        return targets

    monkeypatch.setattr(AllowedTokens, "apply", later)
    monkeypatch.setattr(verification, "_warped", warped)


right = Matcher.allowed


@pytest.mark.parametrize("broken", [shifted, first_alone, too_late])
def test_a_broken_mask_fails_the_same_test(
    small: Small, broken: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    if broken is too_late:
        too_late(monkeypatch)
    else:
        monkeypatch.setattr(Matcher, "allowed", broken)
    case = HELD[ONLINE]
    requests = case.requests(small, EIGHTH)
    drawn = case.draws(small, requests, answers(small, requests))
    assert min(drawn.of_marginals(), drawn.of_pairs()) < 1e-6


def seeded(small: Small, number: int, **options: object) -> tuple[Request, Language | None]:
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


def expected(small: Small, request: Request, language: Language | None) -> tuple[object, ...]:
    allowed = language.allowed if language else None
    return small.reference.decode(request, allowed=allowed)


@pytest.mark.parametrize("number", range(18))
def test_with_a_seed_what_adapts_says_what_the_reference_says(small: Small, number: int) -> None:
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
def test_at_temperature_zero_no_plan_changes_the_text(small: Small, language: Language) -> None:
    terms = {name: small.terms[name] for name in ("x", "y", "small")}
    for prompt in PROMPTS[::2]:
        asked = Request(
            prompt, "x - 0.6*y + M", terms, Sampling(0.0), Stop(16), grammar=language.grammar
        )
        want = expected(small, asked, language)
        requests = [replace(asked, speculation=plan) for plan in PLANS]  # type: ignore[arg-type]
        for plan, out in zip(PLANS, answers(small, requests), strict=True):
            assert (out.text, out.tokens, out.finish_reason) == want, plan


def outcome(small: Small, request: Request) -> object:
    """What comes of a request: its text, or the error that says there is none."""
    try:
        out = small.engine.submit(request).result(60)
    except FormulaError as error:
        return str(error)
    return out.text, out.tokens, out.finish_reason


@pytest.mark.parametrize("language", [REGULAR, NESTED])
def test_no_plan_decides_whether_a_cut_leaves_a_grammar_nothing(
    small: Small, language: Language
) -> None:
    terms = {name: small.terms[name] for name in ("x", "y", "small")}
    found = set()
    for kept, prompt in product((2, 4), PROMPTS[::2]):
        formula = f"(x - 0.6*y + M).top_k({kept})"
        asked = Request(prompt, formula, terms, Sampling(0.0), Stop(16), grammar=language.grammar)
        want, *others = (
            outcome(small, replace(asked, speculation=plan))  # type: ignore[arg-type]
            for plan in PLANS
        )
        assert others == [want] * len(others)
        found.add(type(want))
    assert found == {str, tuple}


def test_with_grammars_and_without_each_text_is_as_alone(small: Small) -> None:
    """Some join late, some are given up half way; those with a seed and a plan too."""
    asked = [seeded(small, number) for number in range(24)]
    asked += [
        (replace(one, formula="x - 0.6*y + M", speculation=PLANS[2 + i % 3]), None)  # type: ignore[arg-type]
        for i, (one, _) in enumerate(asked[:9])
    ]
    alone = [small.engine.submit(one).result(60).tokens for one, _ in asked]
    tickets = []
    for i, (one, _) in enumerate(asked):
        given_up = small.engine.submit(replace(one, stop=Stop(500)))
        tickets.append(small.engine.submit(one))
        if i % 3:
            next(iter(given_up))
        given_up.cancel()
    for (one, language), ticket, tokens in zip(asked, tickets, alone, strict=True):
        out = ticket.result(60)
        assert out.tokens == tokens
        if one.speculation == "auto":
            assert (out.text, out.tokens, out.finish_reason) == expected(small, one, language)
