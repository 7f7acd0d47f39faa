"""A sample of all architectures: requests beside each other get transformers' own numbers."""

from __future__ import annotations

import pytest
from support.architectures import CLOSE, UNCACHED, build, judge

SAMPLE = (
    "llama", "gpt2", "mixtral", "deepseek_v3", "phi3", "mpt", "llama rope dynamic", "big_bird",
    "phi3 longrope, short", "gpt_neo", "gemma2", "gemma3_text", "mistral", "phi3 longrope",
    "gpt_oss", "llama4_text", "bloom", "rwkv", "lfm2", "xlm",
)  # fmt: skip


@pytest.mark.parametrize("name", SAMPLE)
def test_the_architecture_is_answered_as_without_a_cache(name: str) -> None:
    verdict = judge(build(name))
    assert verdict.worst < CLOSE
    assert verdict.cached == (name not in UNCACHED)
    assert bool(verdict.said) != verdict.cached


def test_the_remedy_that_a_warning_names_brings_the_cache_back() -> None:
    verdict = judge(build("phi3 longrope"), long=90)
    assert verdict.said.endswith("with context_length=64 it keeps one")
    short = judge(build("phi3 longrope"), long=16, runs=1, context_length=64)
    assert short.cached
    assert not short.said
    assert short.worst < CLOSE
