"""Baselines by transformers: `generate`, its guidance, and terms one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.generation.streamers import BaseStreamer

from benchmarks.rounds import Sample, TokenClock, Variant
from benchmarks.timed_model import TimedModel, TimedPrompt
from marith.scoring.passes.passes import cache_argument

GUIDANCE = 1.5


def plain(subject: TimedModel, tokens: int) -> Variant:
    """Time one model with one prompt, with which everything else is compared."""
    name = "transformers, one model"

    def run(turn: int) -> Sample:
        (ids,) = _tensors(subject, subject.prompt(1, f"{name} {turn}"))
        return _generated(subject.model, ids, tokens, turn)

    return Variant(name, run)


def guided(subject: TimedModel, tokens: int) -> Variant:
    """Time classifier-free guidance: two terms, by the option of transformers for them."""
    name = "transformers, guidance, 2 terms"

    def run(turn: int) -> Sample:
        ids, negative = _tensors(subject, subject.prompt(2, f"{name} {turn}"))
        return _generated(
            subject.model,
            ids,
            tokens,
            turn,
            guidance_scale=GUIDANCE,
            negative_prompt_ids=negative,
            negative_prompt_attention_mask=torch.ones_like(negative),
        )

    return Variant(name, run)


def one_after_another(subject: TimedModel, weights: Sequence[float], tokens: int) -> Variant:
    """Time terms that each have their own cache and their own pass, for every token."""
    name = f"one after another, {len(weights)} terms"

    def run(turn: int) -> Sample:
        prompt = subject.prompt(len(weights), f"{name} {turn}")
        return _compose(subject, weights, _tensors(subject, prompt), tokens)

    return Variant(name, run)


def first_token(subject: TimedModel, weights: Sequence[float], system: int, ask: int) -> Variant:
    """Time the prompts of all terms, read one after another, up to the first token."""
    name = "one after another, cold"

    def run(turn: int) -> Sample:
        prompt = subject.prompt(len(weights), f"{name} {turn}", system, ask)
        return Sample(_compose(subject, weights, _tensors(subject, prompt), tokens=1).milliseconds)

    return Variant(name, run)


def _generated(model: Any, ids: Tensor, tokens: int, seed: int, **options: Any) -> Sample:
    """Time `generate` on a prompt [1, length]. The model has no token that ends a text."""
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
    """Notes when transformers returns a token. The first call is for the prompt."""

    def __init__(self) -> None:
        self.clock = TokenClock.start()
        self._seen_prompt = False

    def put(self, value: Tensor) -> None:
        if self._seen_prompt:
            self.clock.lap()
        self._seen_prompt = True

    def end(self) -> None:
        """Do nothing, because nothing is left to time."""


@torch.inference_mode()
def _compose(
    subject: TimedModel, weights: Sequence[float], prompts: list[Tensor], tokens: int
) -> Sample:
    factors = torch.tensor(weights)[:, None]
    source = torch.Generator().manual_seed(0)
    clock = TokenClock.start()
    caches = [DynamicCache(config=subject.model.config) for _ in prompts]
    argument = cache_argument(subject.model)
    for _ in range(tokens):
        logits = [
            subject.model(ids, logits_to_keep=1, **{argument: cache}).logits[0, -1]
            for ids, cache in zip(prompts, caches, strict=True)
        ]
        scores = torch.log_softmax(torch.stack(logits), dim=-1)
        composed = (factors * scores).sum(0) / factors.sum()
        token = torch.multinomial(composed.softmax(-1), 1, generator=source)
        prompts = [token[None]] * len(prompts)
        clock.lap()
    return clock.sample()


def _tensors(subject: TimedModel, prompt: TimedPrompt) -> list[Tensor]:
    """Return the prompt of each term, [1, length]."""
    return [torch.tensor([ids]) for ids in subject.readings(prompt)]
