"""The same tokens by transformers alone: `generate`, its guidance, and terms one after another."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import DynamicCache

from benchmarks.timed_model import TimedModel, TimedPrompt
from marith.evals.speed.rounds import Sample, TokenClock, Variant
from marith.evals.speed.speculation.one_model import generated

GUIDANCE = 1.5


def plain(subject: TimedModel, tokens: int) -> Variant:
    """One model, one prompt: the measure of everything else."""
    name = "transformers, one model"

    def run(turn: int) -> Sample:
        (ids,) = _tensors(subject, subject.prompt(1, f"{name} {turn}"))
        return generated(subject.model, ids, tokens, turn)

    return Variant(name, run)


def guided(subject: TimedModel, tokens: int) -> Variant:
    """Classifier-free guidance: two terms, by the option that transformers has for them."""
    name = "transformers, guidance, 2 terms"

    def run(turn: int) -> Sample:
        ids, negative = _tensors(subject, subject.prompt(2, f"{name} {turn}"))
        return generated(
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
    """Each term its own cache and its own pass, for every token."""
    name = f"one after another, {len(weights)} terms"

    def run(turn: int) -> Sample:
        prompt = subject.prompt(len(weights), f"{name} {turn}")
        return _compose(subject, weights, _tensors(subject, prompt), tokens)

    return Variant(name, run)


def first_token(subject: TimedModel, weights: Sequence[float], system: int, ask: int) -> Variant:
    """The prompts of all terms read one after another, up to the first token."""
    name = "one after another, cold"

    def run(turn: int) -> Sample:
        prompt = subject.prompt(len(weights), f"{name} {turn}", system, ask)
        return Sample(_compose(subject, weights, _tensors(subject, prompt), tokens=1).milliseconds)

    return Variant(name, run)


@torch.inference_mode()
def _compose(
    subject: TimedModel, weights: Sequence[float], prompts: list[Tensor], tokens: int
) -> Sample:
    factors = torch.tensor(weights)[:, None]
    source = torch.Generator().manual_seed(0)
    clock = TokenClock.start()
    caches = [DynamicCache(config=subject.model.config) for _ in prompts]
    for _ in range(tokens):
        logits = [
            subject.model(ids, past_key_values=cache, logits_to_keep=1).logits[0, -1]
            for ids, cache in zip(prompts, caches, strict=True)
        ]
        scores = torch.log_softmax(torch.stack(logits), dim=-1)
        composed = (factors * scores).sum(0) / factors.sum()
        token = torch.multinomial(composed.softmax(-1), 1, generator=source)
        prompts = [token[None]] * len(prompts)
        clock.lap()
    return clock.sample()


def _tensors(subject: TimedModel, prompt: TimedPrompt) -> list[Tensor]:
    """The prompt of each term, [1, length]."""
    return [torch.tensor([ids]) for ids in subject.readings(prompt)]
