"""Scoring by eight terms of 150,000 tokens takes at most 200 MB above the model and its keys.

`PYTHONPATH=tests python tests/evidence/test_scoring_memory.py [texts] [length]` prints the figures
of one child process.
"""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import wait
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from marith import Engine
from marith.testing import cached_bytes, tiny_tokenizer

VOCAB = 150_000
MOST = 200  # MB
TERMS = {f"t{i}": f"w{i} w{i + 1}" for i in range(7)}
FORMULA = "M - 0.1*t0" + "".join(f" + 0.{i}*t{i}" for i in range(1, 7))


def resident(kind: str) -> float:
    """MB in memory now (`VmRSS`) or at most so far (`VmHWM`)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(kind))
    return int(line.split()[1]) / 1024


def engine() -> Engine:
    """An engine over a random model of two layers."""
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4160,
        bos_token_id=0,
        eos_token_id=1,
    )
    tokenizer = tiny_tokenizer([f"w{i}" for i in range(VOCAB - 2)])
    return Engine.load(LlamaForCausalLM(config).eval(), tokenizer=tokenizer, cache_bytes=2**32)


def measure(texts: int, length: int) -> float:
    """MB that so many scorings take above what was there before, keys and values left out."""
    with engine() as loaded:
        loaded.score("w3", [5, 6], FORMULA, TERMS)  # the first pass makes what later ones use
        before, begun = resident("VmRSS"), time.monotonic()
        Path("/proc/self/clear_refs").write_text("5")  # the most so far is what there is now
        numbers = [[(7 * i + 11 * k) % VOCAB for k in range(length)] for i in range(texts)]
        futures = [loaded.submit_scoring("w3", text, FORMULA, TERMS) for text in numbers]
        kept = 0
        while wait(futures, timeout=0.1).not_done:
            kept = max(kept, cached_bytes(loaded))
        assert all(len(future.result().logprobs) == length for future in futures)
    above = resident("VmHWM") - before - kept / 2**20
    seconds = time.monotonic() - begun
    print(f"{texts} × {length:,} tokens: {above:.0f} MB, {seconds:.1f} s")
    return above


@pytest.mark.parametrize(("texts", "length"), [(1, 4000), (30, 40)])
def test_scores_by_many_terms_of_many_tokens_take_little_memory(texts: int, length: int) -> None:
    command = [sys.executable, __file__, str(texts), str(length)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert float(printed.split(": ")[1].split()[0]) <= MOST


if __name__ == "__main__":
    torch.set_num_threads(1)
    measure(*map(int, sys.argv[1:]))
