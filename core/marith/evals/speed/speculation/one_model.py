"""One model by transformers alone: the measure of everything else."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.generation.streamers import BaseStreamer

from marith.evals.speed.rounds import Sample, TokenClock, Variant
from marith.evals.speed.speculation.speed_questions import Quotation
from marith.evals.speed.speculation.speed_sizes import POCKET
from marith.formula.tree.terms import Prompted
from marith.request.prompt import to_prompt
from marith.scoring.checkpoints import loader
from marith.scoring.checkpoints.placing import Placement
from marith.scoring.prompting.templates import to_tokens
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.testing import inflate

LARGE = {"hidden": 768, "layers": 13, "intermediate": 2112}  # 97 M parameters
NAME = "transformers, one model"


def large_model() -> tuple[Any, Any]:
    """Return pocket at the cost of a large model, without an end token, and its tokenizer."""
    model, tokenizer = loader.as_stored(POCKET, Placement(device="cpu", dtype="float32"))
    model = inflate(model, **LARGE).eval()
    for config in (model.config, model.generation_config):
        config.eos_token_id = None
    return model, tokenizer


def baseline(
    model: Any, tokenizer: Any, questions: Sequence[str | Quotation], tokens: int
) -> Variant:
    """Answer one of the questions in each round."""
    vocabulary = Vocabulary(tokenizer, model.config.vocab_size)

    def run(turn: int) -> Sample:
        draw = random.Random(f"{NAME} {turn}")  # noqa: S311 (questions, not secrets)
        system, question = _messages(draw.choice(questions))
        ids = to_tokens(Prompted(system), to_prompt(question), vocabulary)
        return generated(model, torch.tensor([ids]), tokens, turn)

    return Variant(NAME, run)


def generated(model: Any, ids: Tensor, tokens: int, seed: int, **options: Any) -> Sample:
    """Time `generate` on a prompt [1, length]; the model has no token that ends a text."""
    torch.manual_seed(seed)
    streamer = _Clock()
    model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=tokens,
        do_sample=True,
        top_k=0,
        pad_token_id=0,
        streamer=streamer,
        **options,
    )
    assert len(streamer.clock.arrivals) == tokens, "a model without an end token makes them all"
    return streamer.clock.sample()


class _Clock(BaseStreamer):
    """Takes the time when transformers hands out a token; it hands out the prompt first."""

    def __init__(self) -> None:
        self.clock = TokenClock.start()
        self._seen_prompt = False

    def put(self, value: Tensor) -> None:
        if self._seen_prompt:
            self.clock.lap()
        self._seen_prompt = True

    def end(self) -> None:
        """Nothing is left to time."""


def _messages(question: str | Quotation) -> tuple[str, str]:
    """The system message, and the user's."""
    if isinstance(question, str):
        return "", question
    contents = {message["role"]: str(message["content"]) for message in question.messages}
    return contents.get("system", ""), contents["user"]
