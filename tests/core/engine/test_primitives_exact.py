"""With factors of the context and gates too, every token is drawn as the formula says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from support.small_engine import END, Draws, SmallEngine, answers, draws, share_of_rejected
from torch import Tensor

from marith import Completion, Plan, Request, Sampling, Stop, parse
from marith.decoding.sampling import warp

BY_CONTEXT = "supersede(A, M + maximum(0.3, 2*jsd(x, M))*(x - y))"
BY_GATES = "where(first(2), x - 0.6*relu(y - x), M + class_prob(C)*x)"
NUMBERS = parse("M + 0.1*(x - y)")
PLANS = {
    BY_CONTEXT: Plan.factors({"M": 1, "x": 2, "y": 4}),
    BY_GATES: Plan.drafts("y", length=2),
}
SIZES = {BY_CONTEXT: (110, 8), BY_GATES: (240, 3)}  # texts, and their tokens


def requests(small: SmallEngine, formula: str, how: Any, seeded: bool = True) -> list[Request]:
    named = {*re.findall(r"\w+", formula), "A", "y"}
    terms = {name: term for name, term in small.terms.items() if name in named}
    texts, tokens = SIZES[formula]
    drawn = [Sampling(0.9, seed=i if seeded else None) for i in range(texts)]
    return [Request("a b", parse(formula), terms, one, Stop(tokens), how) for one in drawn]


def judged(small: SmallEngine, asked: Sequence[Request], done: Sequence[Completion]) -> Draws:
    """Each token beside what it should be drawn from, which for gates the reference says."""
    if str(asked[0].formula) != str(parse(BY_GATES)):
        return draws(small, asked, done)

    @cache
    def truth(before: tuple[int, ...]) -> Tensor:
        return warp(small.reference.distribution(asked[0], [*before]), asked[0].sampling).exp()

    texts = [[*one.tokens, *[END] * (one.finish_reason == "stop")] for one in done]
    return Draws(
        torch.tensor([token for text in texts for token in text]),
        torch.cat([truth(tuple(text[:at])) for text in texts for at in range(len(text))]),
        [at for text in texts for at in range(len(text))],
        [before for text in texts for before in (-1, *text[:-1])],
    )


def likely(drawn: Draws) -> bool:
    return min(drawn.of_marginals(), drawn.of_pairs()) > 1e-3


@pytest.mark.parametrize("formula", PLANS, ids=["context", "gates"])
def test_every_token_has_the_probability_of_the_formula(small: SmallEngine, formula: str) -> None:
    asked = requests(small, formula, PLANS[formula])
    done = answers(small, asked)
    drawn = judged(small, asked, done)
    assert len(drawn.tokens) > 600
    assert likely(drawn)
    assert share_of_rejected(done) >= 0.1
    assert sum(one.stats.accepted for one in done) >= 80
    others = [replace(one, formula=NUMBERS, terms=small.terms) for one in asked]
    assert draws(small, others, done).of_pairs() < 1e-6


@pytest.mark.parametrize("formula", PLANS, ids=["context", "gates"])
def test_tokens_without_a_seed_have_the_probability_of_the_formula(
    small: SmallEngine, formula: str
) -> None:
    """Numbers differ from run to run: what fails once by chance does not fail twice."""

    def once() -> bool:
        asked = requests(small, formula, "auto", seeded=False)
        return likely(judged(small, asked, answers(small, asked)))

    assert once() or once()
