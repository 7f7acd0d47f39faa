"""The memory of many scores together is limited, and no score changes."""

from __future__ import annotations

import pytest
from support.held_passes import hold_passes
from support.step_tensors import MostRows, watch_steps

from marith import Engine
from marith.engine.jobs import queries
from marith.testing import tiny_model, tiny_tokenizer

WORDS = 5000
NUMBERS = 1 << 20
FORMULA, TERMS = "2*x - M", {"x": "w1 w2"}


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
        with hold_passes(engine):
            futures = [engine.submit_scoring("w3", text, FORMULA, TERMS) for text in texts]
        scores = [future.result(60).logprobs for future in futures]
        assert engine.status().repeated == 0
    # A product of few rows may compute four (`set_fewest_rows`).
    assert positions < most.rows <= max(4, 2 * positions)
    for want, given in zip(unbounded, scores, strict=True):
        assert given == pytest.approx(want, rel=1e-6)
