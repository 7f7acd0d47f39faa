"""Whatever drafts and whoever checks late, every token is drawn as the formula says."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from drafting import END, Small, answers, build, draws, refused, truths_of
from torch import Tensor

from marith import Completion, Plan, Request, Sampling, Stop, parse
from marith.decoding.sampling import warp
from marith.request.completion import StageStats
from marith.speculation import verify as verification
from marith.speculation.verify import verify

ENOUGH = 20_000  # draws of each case
PROMPTS = ("a b", "c", "e f a d a b c a", "b b")


@dataclass(frozen=True)
class Case:
    """A formula, a plan for it, and texts enough for `ENOUGH` draws."""

    formula: str
    plan: Plan
    sampling: Sampling
    texts: int
    tokens: int
    spread: int = 5
    prompts: Sequence[str] = PROMPTS

    def requests(self, small: Small, texts: int | None = None) -> list[Request]:
        """Prompts and lengths of all sizes at once, one seed each."""
        formula, named = parse(self.formula), re.findall(r"\w+", f"{self.formula} {self.plan}")
        terms = {name: term for name, term in small.terms.items() if name in named}
        return [
            Request(
                self.prompts[i % len(self.prompts)],
                formula,
                terms,
                Sampling(self.sampling.temperature, top_p=self.sampling.top_p, seed=i),
                Stop(max(1, self.tokens - i % self.spread)),
                self.plan,
            )
            for i in range(texts or self.texts)
        ]


CASES = {
    "factors 1 2 3, a classifier among them": Case(
        "0.5*x + M + 1.5*C",
        Plan.factors({"x": 1, "C": 2, "M": 3}),
        Sampling(1.0),
        texts=6500,
        tokens=4,
        spread=2,
        prompts=PROMPTS[:1],
    ),
    "factors 1 4 4, a union, and a small model until a term speaks": Case(
        "x - 0.7*union(x, y) + 0.8*supersede(small, z)",
        Plan.factors({"x": 1, "y": 4, "z": 4}),
        Sampling(0.7, top_p=0.95),
        texts=1900,
        tokens=24,
    ),
    "factors 1 3 5 2, and texts that end early": Case(
        "x - 0.8*y + 1.5*M + 0.9*ends",
        Plan.factors({"x": 1, "y": 3, "M": 5, "ends": 2}),
        Sampling(1.0),
        texts=3050,
        tokens=16,
    ),
    "an online n-gram": Case(
        "x - 0.6*y + M",
        Plan.drafts("own", length=4),
        Sampling(1.0, top_p=0.9),
        texts=1400,
        tokens=24,
    ),
    "a fitted n-gram under a small model": Case(
        "x - 0.6*y + M",
        Plan.drafts("A", "small", length=4),
        Sampling(1.0),
        texts=1550,
        tokens=24,
    ),
}
BROKEN = "a fitted n-gram under a small model"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    yield from build(tmp_path_factory.mktemp("eight"))


def stand_as_predicted(done: Sequence[Completion]) -> bool:
    """Whether as many tokens stood in each stage as 1 − TV says, to five standard errors."""
    stages: dict[str, list[StageStats]] = {}
    for stage in (stage for one in done for stage in one.stats.stages):
        stages.setdefault(stage.part, []).append(stage)
    return all(
        abs(sum(one.stood - one.predicted * one.evaluated for one in alike))
        < 2.5 * math.sqrt(sum(one.evaluated for one in alike))
        for alike in stages.values()
    )


@pytest.mark.parametrize("name", CASES)
def test_every_token_is_drawn_from_the_truth(small: Small, name: str) -> None:
    requests = CASES[name].requests(small)
    done = answers(small, requests)
    drawn = draws(small, requests, done)
    assert len(drawn.tokens) >= ENOUGH
    assert refused(done) >= 0.2
    assert sum(one.stats.accepted for one in done) >= 1000
    assert stand_as_predicted(done)
    assert drawn.of_marginals() > 1e-3
    assert drawn.of_pairs() > 1e-3
    others = [replace(request, formula="x") for request in requests]
    assert draws(small, others, done).of_pairs() < 1e-6
    if "end early" in name:
        assert float((drawn.tokens == END).double().mean()) > 0.09


def forgetful(truth: Tensor, guess: Tensor) -> Tensor:
    """A residual that does not take off what the guess has given already."""
    return truth


def trusting(
    truths: Tensor, guesses: Sequence[Tensor | None], stood: Tensor, chances: Tensor
) -> tuple[Tensor, Tensor]:
    """A verifier that keeps whatever was drafted."""
    tokens, overlaps = verify(truths, guesses, stood, chances)
    return torch.where(stood >= 0, stood, tokens), overlaps


@pytest.mark.parametrize("part", [forgetful, trusting])
def test_a_broken_verifier_fails_the_same_test(
    small: Small, part: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {forgetful: "residual", trusting: "verify"}[part]
    monkeypatch.setattr(verification, broken, part)
    requests = CASES[BROKEN].requests(small, texts=250)
    drawn = draws(small, requests, answers(small, requests))
    assert min(drawn.of_marginals(), drawn.of_pairs()) < 1e-6


def test_the_truth_is_what_the_reference_says(small: Small) -> None:
    """Uncached passes over whole texts, and the reference's own, one prefix after another."""
    for name, case in CASES.items():
        request = case.requests(small, 1)[0]
        text = [3, 2, 2, 7, END]
        rows = [
            warp(small.reference.distribution(request, text[:at]), request.sampling)
            for at in range(len(text))
        ]
        truths = truths_of(small, request, [[4], text])[1:]
        torch.testing.assert_close(truths, torch.cat(rows).exp(), msg=name)
