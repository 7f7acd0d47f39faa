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

PAGE = 32  # tokens of a block: the default of 256 suits long texts


def generate(subject: TimedModel, requests: int, tokens: int) -> Variant:
    """`generate` on all prompts at once, the shorter ones padded."""
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
    """Continuous batching: from when the requests are there to the last answer.

    Its cache is made anew for each call, which does not count: a server makes it once.
    """
    name = f"transformers generate_batch, {counted(requests, 'request')}"

    def run(turn: int) -> Sample:
        prompts = prompts_of(subject, requests, f"{name} {turn}")
        torch.manual_seed(turn)
        found = subject.model.generate_batch(
            prompts,
            _sampling(tokens, eos_token_id=-1),  # none of them, said as it wants it said
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
    """Return the name of the variant that all others of as many requests are compared with."""
    return f"transformers generate, {counted(requests, 'request')}"


def prompts_of(subject: TimedModel, requests: int, seed: str) -> list[list[int]]:
    """Return the tokens of new prompts, each with one system prompt."""
    prompts = (subject.prompt(1, f"{seed} {i}") for i in range(requests))
    return [subject.readings(prompt)[0] for prompt in prompts]


def _sampling(tokens: int, **others: int) -> GenerationConfig:
    """Drawn from the whole distribution; no token is an end."""
    options = {"max_new_tokens": tokens, "top_k": 0, "pad_token_id": 0, **others}
    return GenerationConfig(do_sample=True, **options)


def _batching(prompts: Sequence[Sequence[int]], tokens: int) -> ContinuousBatchingConfig:
    """Room for these texts: by default it would take most of the memory that is free."""
    most = max(map(len, prompts)) + tokens
    return ContinuousBatchingConfig(
        page_size=PAGE,
        num_blocks=len(prompts) * (most // PAGE + 1) + 1,
        max_batch_tokens=max(512, sum(map(len, prompts))),
        max_requests_per_batch=len(prompts),
        use_cuda_graph=False,
        allow_block_sharing=False,  # no two of these prompts begin alike
    )
