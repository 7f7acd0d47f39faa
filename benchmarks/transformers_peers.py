"""Many texts of one model by transformers: a batch of one length, and continuous batching."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from transformers import GenerationConfig
from transformers.generation.configuration_utils import ContinuousBatchingConfig

from benchmarks.rounds import Sample, Variant
from benchmarks.timed_model import TimedModel
from marith.console import counted

# Tokens of a block. The default of 256 suits longer texts.
PAGE = 32


def generate(subject: TimedModel, requests: int, tokens: int) -> Variant:
    """Time `generate` on all prompts at once, with padding for the shorter ones."""
    name = generate_name(requests)

    def run(turn: int) -> Sample:
        prompts = prompts_of(subject, requests, f"{name} {turn}")
        longest = max(map(len, prompts))
        padded = torch.tensor([[0] * (longest - len(one)) + one for one in prompts])
        mask = torch.tensor([[0] * (longest - len(one)) + [1] * len(one) for one in prompts])
        torch.manual_seed(turn)
        started = time.perf_counter()
        out = subject.model.generate(
            padded, attention_mask=mask, generation_config=_sampling(tokens)
        )
        seconds = time.perf_counter() - started
        assert out.shape == (requests, longest + tokens), "a model without an end token"
        return Sample(1e3 * seconds / (requests * tokens))

    return Variant(name, run, over=name)


def generate_batch(subject: TimedModel, requests: int, tokens: int) -> Variant:
    """Time continuous batching: from the requests to the last answer.

    Its cache is made again for each call, which is not timed, because a server makes it once.
    """
    name = f"transformers generate_batch, {counted(requests, 'request')}"

    def run(turn: int) -> Sample:
        prompts = prompts_of(subject, requests, f"{name} {turn}")
        torch.manual_seed(turn)
        found = subject.model.generate_batch(
            prompts,
            # Continuous batching takes -1 for no end token.
            _sampling(tokens, eos_token_id=-1),
            _batching(prompts, tokens),
            progress_bar=False,
            warmup=False,
        )
        answers = list(found.values())
        made = sum(len(one.generated_tokens) for one in answers)
        if made != requests * tokens:
            errors = {one.error for one in answers if one.error} or {f"{made} tokens"}
            raise RuntimeError("; ".join(sorted(errors)))
        seconds = max(one.lifespan[1] for one in answers) - min(one.created_time for one in answers)
        return Sample(1e3 * seconds / made)

    return Variant(name, run, over=generate_name(requests))


def generate_name(requests: int) -> str:
    """Return the name of the variant with which variants of as many requests are compared."""
    return f"transformers generate, {counted(requests, 'request')}"


def prompts_of(subject: TimedModel, requests: int, seed: str) -> list[list[int]]:
    """Return the tokens of new prompts, each with one system prompt."""
    prompts = (subject.prompt(1, f"{seed} {i}") for i in range(requests))
    return [subject.readings(prompt)[0] for prompt in prompts]


def _sampling(tokens: int, **others: int) -> GenerationConfig:
    """Return settings that sample from the whole distribution, without an end token."""
    options = {"max_new_tokens": tokens, "top_k": 0, "pad_token_id": 0, **others}
    return GenerationConfig(do_sample=True, **options)


def _batching(prompts: Sequence[Sequence[int]], tokens: int) -> ContinuousBatchingConfig:
    """Return settings with room for these texts. The default takes most of the free memory."""
    most = max(map(len, prompts)) + tokens
    return ContinuousBatchingConfig(
        page_size=PAGE,
        num_blocks=len(prompts) * (most // PAGE + 1) + 1,
        max_batch_tokens=max(512, sum(map(len, prompts))),
        max_requests_per_batch=len(prompts),
        use_cuda_graph=False,
        # No two of these prompts have a common beginning.
        allow_block_sharing=False,
    )
