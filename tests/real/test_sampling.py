"""Drafted texts have exactly the distribution of the formula, by chi-square."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from support.pair_draws import p_value, p_value_or_zero

from marith import Engine, Plan, Request, Sampling, Stop

PROMPT = "What do you know about the moon?"
FORMULA = "M + 0.5*formal - 0.3*toxic"
KEPT, LENGTH, DRAWS = 4, 3, 300  # likeliest tokens, tokens of a text, and texts
PLANS = {
    "by factors": Plan.factors({"formal": 3, "toxic": 4}),
    "by a draft": Plan.drafts("M", length=3),
    "none": None,
}


def distribution(
    engine: Engine, formula: str, terms: Any, before: tuple[int, ...] = (), mass: float = 1.0
) -> Iterator[tuple[tuple[int, ...], float]]:
    """The probability of every text of LENGTH tokens, from `next_logprobs` alone."""
    if len(before) == LENGTH:
        yield before, mass
        return
    top = engine.next_logprobs(PROMPT, formula, terms, before).topk(KEPT)
    for p, token in zip(top.values.softmax(0).tolist(), top.indices.tolist(), strict=True):
        yield from distribution(engine, formula, terms, (*before, token), mass * p)


@pytest.fixture(scope="module")
def expected(engine: Engine, terms: dict[str, str]) -> dict[tuple[int, ...], float]:
    return dict(distribution(engine, FORMULA, terms))


@pytest.mark.parametrize("plan", PLANS)
def test_texts_are_drawn_from_the_formula(
    plan: str, engine: Engine, terms: dict[str, str], expected: Any, timed: Any
) -> None:
    def ask(seed: int) -> Request:
        sampling = Sampling(top_k=KEPT, seed=seed)
        stop = Stop(LENGTH, ignore_eos=True)
        return Request(PROMPT, FORMULA, terms, sampling, stop, speculation=PLANS[plan])

    done = [ticket.result() for ticket in [engine.submit(ask(seed)) for seed in range(DRAWS)]]
    counts = Counter(tuple(each.tokens) for each in done)
    p = p_value(counts, expected)
    drafted = sum(each.stats.drafted for each in done)
    timed(f"{FORMULA}, drafts {plan}: {DRAWS} texts, {drafted} tokens drafted, p = {p:.3f}")
    assert (drafted > 0) == (PLANS[plan] is not None)
    assert p > 1e-3
    assert p_value_or_zero(counts, dict(distribution(engine, "M", terms))) < 1e-6
