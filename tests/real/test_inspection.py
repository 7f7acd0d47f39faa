"""Why each token is there: the sums of an inspection are the log-probabilities of the engine."""

from __future__ import annotations

from typing import Any

import pytest

import marith
from marith import Engine, Sampling, Stop

FORMULA = "1.5*formal - 0.5*M"
QUESTION = "Tell me about the moon."


def test_contributions_add_up_and_logprobs_are_those_of_score(
    engine: Engine, terms: dict[str, str], timed: Any
) -> None:
    done = engine.generate(QUESTION, FORMULA, terms, Sampling(temperature=0), Stop(24))
    inspection = marith.inspect(engine, QUESTION, done.tokens, FORMULA, terms)
    scores = engine.score(QUESTION, done.tokens, FORMULA, terms)
    assert len(inspection.positions) == len(scores) == len(done.tokens)
    for position, score in zip(inspection.positions, scores, strict=True):
        assert position.logprob == pytest.approx(score, abs=2e-3)
        assert position.rank == 1
        parts = sum(part.value for part in position.contributions)
        assert parts == pytest.approx(position.log_odds, abs=1e-6)
    flipped = sum(position.flipped for position in inspection.positions)
    timed(
        f"{flipped} of {len(scores)} tokens are the formula's likeliest and not M's: {done.text!r}"
    )
