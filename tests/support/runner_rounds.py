"""Random rounds of questions to a runner, compared with the uncached model."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st
from support.runner_questions import CLOSE, VOCAB, ask, span_of, uncached

from marith.scoring.passes.cached_runner import CachedRunner

tokens = st.integers(0, VOCAB - 1)

Round = list[tuple[int, int, list[int], int, bool]]


@st.composite
def rounds(draw: st.DrawFn, longest_tail: int = 9) -> list[Round]:
    """Draw rounds of (lane, kept tokens of its last text, new tail, count, released afterwards)."""
    one = st.tuples(
        st.integers(0, 12),
        st.integers(0, 60),
        st.lists(tokens, max_size=longest_tail),
        st.integers(1, 12),
        st.booleans(),
    )
    together = st.lists(one, min_size=1, max_size=5, unique_by=lambda item: item[0])
    return draw(st.lists(together, min_size=1, max_size=6))


def require_answers(
    model: Any, runner: CachedRunner, script: list[Round], close: float = CLOSE
) -> None:
    """Ask every round, and compare each answer with the answer of the uncached model."""
    texts: dict[int, list[int]] = {}
    for together in script:
        asked = []
        for lane, kept, tail, count, _ in together:
            texts[lane] = (texts.get(lane, [])[:kept] + tail)[:100] or [lane]
            asked.append(span_of(lane, texts[lane], min(count, len(texts[lane]))))
        for question, answer in zip(asked, ask(runner, asked), strict=True):
            want = uncached(model, question.tokens, question.count)
            assert answer.logprobs.shape == want.shape
            torch.testing.assert_close(answer.logprobs, want, atol=close, rtol=0)
        for lane, _, _, _, released in together:
            if released:
                runner.release(lane)
