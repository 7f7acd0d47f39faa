"""Requests whose terms read texts on both sides of a rotary limit get the model's own numbers."""

from __future__ import annotations

import pytest
import torch
from support.architectures import CLOSE, build, endless, judge, uncached, words

import marith
from marith.scoring.rotary.length_runner import LengthRunner

PLANS = (None, marith.Plan.drafts("M", length=3), marith.Plan.factors({"x": 4}))


@pytest.mark.parametrize("name", ["phi3 longrope", "llama rope longrope", "phimoe longrope"])
@pytest.mark.parametrize("plan", PLANS)
def test_an_answer_crosses_the_limit_in_one_term_after_the_other(
    name: str, plan: marith.Plan | None
) -> None:
    model, prompt, system = build(name), words(45, 5), words(8, 2)
    with marith.Engine.load(model, tokenizer=endless()) as engine:
        assert isinstance(engine._registry.base.runner, LengthRunner)
        out = engine.generate(
            prompt, "0.6*M + 0.4*x", {"x": system}, marith.Sampling(seed=3),
            marith.Stop(30), speculation=plan, logprobs=0,
        )  # fmt: skip
        a, b = engine.encode(prompt), engine.encode(f"{system}\n{prompt}")
        assert len(a) < len(b) < 64 < len(a) + 29
        own = list(out.tokens)
        first, second = uncached(model, a + own), uncached(model, b + own)
        mixed = 0.6 * first[len(a) - 1 :] + 0.4 * second[len(b) - 1 :]
        want = torch.log_softmax(mixed, dim=-1)
        for i, (token, one) in enumerate(zip(own, out.logprobs or (), strict=True)):
            assert one.logprob == pytest.approx(float(want[i, token]), abs=1e-4)
        scored = engine.score(prompt, own)
        rows = torch.log_softmax(first, dim=-1)[len(a) - 1 : -1]
        assert scored == pytest.approx([float(r[t]) for r, t in zip(rows, own, strict=True)], 1e-4)


def test_a_context_up_to_the_limit_needs_no_lengths() -> None:
    verdict = judge(build("phi3 longrope"), long=16, runs=1, context_length=64)
    assert verdict.kind == "cached"
    assert verdict.worst < CLOSE
