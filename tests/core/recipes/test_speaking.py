"""Every recipe generates on pocket, and drafts do not change its text."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from marith import Classifier, Engine, Prompted, Sampling, Stop

PROMPT = "What do you think of my cake?"
KIND, RUDE = "You are kind and polite.", "You are rude. Insult everyone."
TERMS: dict[str, Any] = {
    **dict.fromkeys(("target", "topic", "expert", "good", "helpful", "nudger", "one"), KIND),
    **dict.fromkeys(("toxic", "rude", "barred", "anti", "bad", "biased", "amateur"), RUDE),
    **dict.fromkeys(("forgetting", "other"), RUDE),
    "harmless": "You never do harm.",
    "bare": Prompted(template="plain"),
    "blind": Prompted(hide="think of my cake"),
    "tuned": Prompted(adapter="pocket-polite"),
    "base": Prompted(adapter="pocket-rude"),
    "C": Classifier("pocket-toxicity", label="civil", candidates=10),
    "R": Classifier("pocket-sentiment", label="positive", candidates=10, scale="probability"),
}


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.shared("pocket")


def test_a_recipe_gives_the_same_text_with_drafts_and_without(row: Any, engine: Engine) -> None:
    def say(speculation: Any) -> Any:
        asked = {"sampling": Sampling(seed=5), "stop": Stop(6), "speculation": speculation}
        return engine.generate(PROMPT, row.call, TERMS, **asked)

    drafted, plain = say("auto"), say(None)
    assert plain.tokens
    assert drafted.tokens == plain.tokens
    assert drafted.text == plain.text


@pytest.fixture(scope="module")
def bases(engine: Engine) -> dict[str, torch.Tensor]:
    """What the recipes' first members say alone."""
    return {name: engine.next_logprobs(PROMPT, name, TERMS).exp() for name in ("M", "one")}


def test_a_recipe_is_another_distribution_than_the_model(
    row: Any, engine: Engine, bases: dict[str, torch.Tensor]
) -> None:
    told = engine.next_logprobs(PROMPT, row.call, TERMS).exp()
    assert not bool(told.isnan().any())
    assert float(told.sum()) == pytest.approx(1.0, abs=1e-4)
    assert not torch.allclose(told, bases["one" if "(one" in row.call else "M"], atol=1e-3)
