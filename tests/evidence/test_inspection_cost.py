"""Inspecting a text costs little more than scoring it; for a machine with nothing else to do."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from random import Random

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import marith
from marith import Engine
from marith.testing import tiny_tokenizer

BARS = {16_000: 1.3, 150_000: 2.0}  # vocabulary → most times the cost of scoring
TOKENS, ROUNDS = 128, 5
FORMULA, TERMS = "2*x - M", {"x": "w5 w6 w7"}


@pytest.mark.parametrize("vocab", BARS)
def test_inspecting_costs_little_more_than_scoring(
    vocab: int, report: Callable[[str], None]
) -> None:
    ratio = statistics.median(ratios(vocab))
    report(f"{vocab:,} tokens: inspecting takes {ratio:.2f} times as long as scoring")
    assert ratio <= BARS[vocab]


def ratios(vocab: int) -> Iterator[float]:
    """Seconds to inspect a text over those to score another one, after a round that warms up.

    Of a Llama of 97 million parameters with 16,000 tokens, or with more. Texts are new in every
    round. Terms are not left out: that costs one more evaluation for each of them.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=vocab, tie_word_embeddings=True, bos_token_id=0, eos_token_id=1,
            hidden_size=768, num_hidden_layers=13, num_attention_heads=12, num_key_value_heads=4,
            intermediate_size=2144,
        )  # fmt: skip
        model = LlamaForCausalLM(config).eval()
    tokenizer, draw = tiny_tokenizer([f"w{i}" for i in range(vocab - 2)]), Random(7)
    with Engine.load(model, tokenizer=tokenizer) as engine:
        for salt in range(ROUNDS + 1):
            texts = [[draw.randrange(2, vocab) for _ in range(TOKENS)] for _ in range(2)]
            begun = time.perf_counter()
            engine.score("w3 w4", texts[0], FORMULA, TERMS, cache_salt=f"{salt} scored")
            between = time.perf_counter()
            marith.inspect(
                engine,
                "w3 w4", texts[1], FORMULA, TERMS, top=10, leave_one_out=False,
                cache_salt=f"{salt} inspected",
            )  # fmt: skip
            if salt:
                yield (time.perf_counter() - between) / (between - begun)
