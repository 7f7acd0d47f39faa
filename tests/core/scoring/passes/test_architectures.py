"""A sample of all architectures: requests beside each other get transformers' own numbers."""

from __future__ import annotations

import pytest
from support.architectures import CLOSE, UNCACHED, build, expected, judge, judge_whole

# `test_segments`, `test_windows` and `test_state_runner` have others.
SAMPLE = (
    "llama", "mixtral", "deepseek_v3", "phi3", "mpt", "llama rope dynamic",
    "big_bird block sparse", "phi3 longrope, long", "bloom", "xlm",
)  # fmt: skip
WHOLE = ("gemma3_text", "lfm2", "phi3 longrope", "phimoe longrope")


@pytest.mark.parametrize("name", SAMPLE)
def test_the_architecture_is_answered_as_without_a_cache(name: str) -> None:
    verdict = judge(build(name))
    assert verdict.worst < CLOSE
    assert verdict.cached == (name not in UNCACHED)
    assert bool(verdict.said) != verdict.cached


@pytest.mark.parametrize("name", WHOLE)
def test_drafts_taken_back_second_turns_and_adapters_are_answered_so_too(name: str) -> None:
    verdict = judge_whole(build(name))
    assert verdict.worst < CLOSE
    assert verdict.kind == expected(name)
    assert verdict.lora
