"""`context_aware` against the paper's own equation on random logits."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from marith import Prompted, parse
from marith.decoding.evaluation import evaluate
from marith.recipes import context_aware

MODEL, WITHOUT, SPEAKER = Prompted(), Prompted(hide="x"), Prompted("Be formal.")
STRENGTHS = st.floats(0, 4)


def scores(seed: int) -> dict[Prompted, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return {
        term: torch.log_softmax(torch.randn(1, 9, generator=draw), -1)
        for term in (MODEL, WITHOUT, SPEAKER)
    }


@given(STRENGTHS, st.integers(0, 1000))
def test_it_is_the_papers_difference_of_logits(strength: float, seed: int) -> None:
    known = scores(seed)
    told = evaluate(context_aware(MODEL, WITHOUT, strength), known)
    truth = (1 + strength) * known[MODEL] - strength * known[WITHOUT]
    torch.testing.assert_close(told, torch.log_softmax(truth, -1), atol=1e-5, rtol=0)


@given(STRENGTHS, st.integers(0, 1000))
def test_another_speaker_gets_the_same_difference(strength: float, seed: int) -> None:
    known = scores(seed)
    told = evaluate(context_aware(MODEL, WITHOUT, strength, SPEAKER), known)
    truth = known[SPEAKER] + strength * (known[MODEL] - known[WITHOUT])
    torch.testing.assert_close(told, torch.log_softmax(truth, -1), atol=1e-5, rtol=0)


def test_at_no_strength_it_is_its_base() -> None:
    known = scores(3)
    for base, told in (
        (MODEL, context_aware(MODEL, WITHOUT, 0)),
        (SPEAKER, context_aware(MODEL, WITHOUT, 0, SPEAKER)),
    ):
        torch.testing.assert_close(evaluate(told, known), known[base])


def test_it_may_be_written_down() -> None:
    told = context_aware(parse("M"), parse("blind"), 0.5)
    assert str(told) == "M + 0.5*(M - blind)"
    assert parse(str(told)) == told
