"""With longrope the context length decides which frequencies all texts have."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from support.architectures import build, endless, words
from support.uncached_logits import logits_after
from torch import Tensor

import marith
from marith.scoring.weights.layout.rotary_frequencies import original_positions

LIMIT, LONG = 64, 512
NAMES = ["phi3 longrope", "llama rope longrope", "phimoe longrope"]


def expected(model: Any, tokens: list[int], as_part_of: int = 0) -> Tensor:
    """Log-probabilities after each prefix of `tokens`, by transformers alone."""
    logits = logits_after(model, tokens, len(tokens), as_part_of)
    return torch.log_softmax(logits.float(), dim=-1)


@pytest.mark.parametrize("name", NAMES)
def test_by_default_texts_have_the_frequencies_of_short_texts(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = build(name)
    caplog.set_level(logging.INFO, "marith")
    with marith.Engine.load(model, tokenizer=endless()) as engine:
        assert engine.context_length == original_positions(model.config) == LIMIT
        tokens = engine.encode(words(LIMIT - 2, 5))
        rows = engine.next_logprobs(tokens[:1], continuation=tokens[1:])
        want = expected(model, tokens)[-1]
        assert float((rows - want[: len(rows)]).abs().max()) < 1e-4
        with pytest.raises(marith.ContextOverflow):
            engine.next_logprobs(words(LIMIT, 5))
    assert "the rotary frequencies of short texts: its context_length is 64" in caplog.text


@pytest.mark.parametrize("name", NAMES)
def test_with_a_longer_context_all_texts_have_the_frequencies_of_long_texts(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = build(name)
    caplog.set_level(logging.INFO, "marith")
    with marith.Engine.load(model, tokenizer=endless(), context_length=LONG) as engine:
        for length in (9, LIMIT - 2, LIMIT + 20):
            tokens = engine.encode(words(length, 5))
            scores = engine.score(tokens[:1], tokens[1:])
            rows = expected(model, tokens, as_part_of=LIMIT + 1)[:-1]
            want = [float(row[token]) for row, token in zip(rows, tokens[1:], strict=True)]
            assert scores == pytest.approx(want, abs=1e-4)
        out = engine.generate(words(LIMIT - 5, 5), max_tokens=20, logprobs=0, temperature=0)
        assert len(out.tokens) == 20
    assert "the rotary frequencies of long texts: its context_length is 512" in caplog.text


def test_the_callers_model_stays_as_it_is() -> None:
    model, tokens = build("phi3 longrope"), [3, 1, 4, 1, 5]
    before = expected(model, tokens)
    marith.Engine.load(model, tokenizer=endless(), context_length=LONG).close()
    assert torch.equal(expected(model, tokens), before)
    assert original_positions(model.config) == LIMIT


def test_a_context_of_other_models_has_no_such_limit() -> None:
    for name in ("llama", "llama rope dynamic", "gpt2"):
        assert original_positions(build(name).config) is None
