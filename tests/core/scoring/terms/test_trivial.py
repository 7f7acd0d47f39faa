"""The number of tokens before each position, whatever was asked before."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from support.runner_questions import opened

from marith.formula.tree.signals import POSITION
from marith.request.prompt import Prompt
from marith.scoring.passes.questions import Span
from marith.scoring.terms.trivial import PositionScorer


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), min_size=1, max_size=4))
def test_places_are_counted_from_the_continuations_first_token(
    asked: list[tuple[int, int]],
) -> None:
    scorer = PositionScorer()
    assert scorer.read(POSITION, Prompt()) == ()
    several = [(length, min(count, length + 1)) for length, count in asked]
    spans = [
        Span(POSITION, opened(scorer, POSITION, ()), range(length), count)
        for length, count in several
    ]
    for (length, count), answer in zip(several, scorer.score(spans), strict=True):
        assert answer.logprobs.dtype == torch.float32
        assert answer.logprobs.shape == (count, 1)
        assert answer.logprobs[:, 0].tolist() == [length - count + 1 + i for i in range(count)]
        assert not answer.passes
