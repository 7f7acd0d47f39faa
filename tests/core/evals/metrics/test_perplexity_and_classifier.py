"""Perplexity and attributes of texts, beside a direct calculation."""

from __future__ import annotations

import math

import pytest
import torch

from marith import Engine, RequestError
from marith.evals.experiment.texts import Text
from marith.evals.metrics.text_classifier import attribute
from marith.evals.metrics.text_perplexity import Perplexity
from marith.testing import tiny_model, tiny_tokenizer


def test_perplexity_is_of_exactly_these_tokens_and_skips_none() -> None:
    model, tokenizer = tiny_model(), tiny_tokenizer()
    prompt, tokens = tokenizer("a b c").input_ids, [5, 6, 2]
    with torch.no_grad():
        logits = model(torch.tensor([prompt + tokens])).logits[0].log_softmax(-1)
    nats = [float(logits[len(prompt) - 1 + i, token]) for i, token in enumerate(tokens)]
    with Engine.load(model, tokenizer=tokenizer) as engine:
        texts = [Text("M", 0, 0, 0, "", "a b c", "", t, "", 0, 0) for t in (tuple(tokens), ())]
        got, of_none = Perplexity({}).open(engine)(texts)
    assert of_none is None
    assert got == pytest.approx(math.exp(-sum(nats) / 3), rel=1e-4)


def test_an_attribute_is_a_probability_for_each_text() -> None:
    kind, rude = attribute(
        ["Thank you, that is a lovely idea.", "You useless lump of mud, nobody asked you."],
        "pocket-toxicity",
        "toxic",
    )
    assert kind < 0.5 < rude
    assert attribute([], "pocket-toxicity", "toxic") == []
    with pytest.raises(RequestError, match="civil"):
        attribute(["a"], "pocket-toxicity", "angelic")
