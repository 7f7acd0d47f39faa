"""What many scores have in memory together is bounded, and none changes by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from support.holding import held
from support.step_tensors import MostRows, watch_steps

from marith import Engine
from marith.engine.jobs import queries
from marith.scoring.scorer import Span
from marith.scoring.terms.prompted_scorer import PromptedScorer
from marith.testing import tiny_model, tiny_tokenizer

WORDS = 5000
NUMBERS = 1 << 20
FORMULA, TERMS = "2*x - M", {"x": "w1 w2"}


def test_scores_of_many_texts_share_the_memory_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "NUMBERS", NUMBERS, raising=False)
    asked: list[int] = []
    score = PromptedScorer.score

    def counted(self: Any, spans: Sequence[Span]) -> Any:
        asked.append(sum(span.count for span in spans) * WORDS)
        return score(self, spans)

    monkeypatch.setattr(PromptedScorer, "score", counted)
    tokenizer = tiny_tokenizer([f"w{i}" for i in range(WORDS - 2)])
    model = tiny_model(vocab=WORDS, sharpness=1.0)
    with Engine.load(model, tokenizer=tokenizer, max_lanes=64) as engine:
        texts = [[(7 * i + k) % WORDS for k in range(60)] for i in range(24)]
        alone = [engine.score("w3", text, FORMULA, TERMS) for text in texts[:3]]
        assert max(asked) == 2 * 60 * WORDS  # who asks alone is bounded by its own length
        asked.clear()
        with held(engine):
            futures = [engine.submit_scoring("w3", text, FORMULA, TERMS) for text in texts]
        got = [future.result(60).logprobs for future in futures]
    assert max(asked) <= NUMBERS
    for want, told in zip(alone, got, strict=False):
        assert told == pytest.approx(want, abs=1e-4)
    assert all(len(told) == 60 for told in got)


@pytest.mark.parametrize("positions", [1, 2, 7])
def test_scores_for_which_there_is_no_memory_wait(
    monkeypatch: pytest.MonkeyPatch, positions: int
) -> None:
    texts = [[(7 * i + k) % WORDS for k in range(9)] for i in range(5)]
    tokenizer = tiny_tokenizer([f"w{i}" for i in range(WORDS - 2)])
    with Engine.load(tiny_model(vocab=WORDS, sharpness=1.0), tokenizer=tokenizer) as engine:
        unbounded = [engine.score("w3", text, FORMULA, TERMS) for text in texts]
        monkeypatch.setattr(queries, "NUMBERS", positions * 2 * WORDS)
        most = MostRows(WORDS)
        watch_steps(monkeypatch, lambda: most)
        with held(engine):
            futures = [engine.submit_scoring("w3", text, FORMULA, TERMS) for text in texts]
        scores = [future.result(60).logprobs for future in futures]
        assert engine.status().repeated == 0
    # A product of few rows may compute four (`set_fewest_rows`).
    assert positions < most.rows <= max(4, 2 * positions)
    for want, given in zip(unbounded, scores, strict=True):
        assert given == pytest.approx(want, rel=1e-6)
