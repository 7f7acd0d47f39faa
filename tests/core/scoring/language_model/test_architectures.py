"""A sample of all architectures: requests beside each other get transformers' own numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.architectures import CLOSE, UNCACHED, build, expected, judge, judge_whole
from support.architectures.adapters import adapt, adaptable
from support.architectures.models import uncached
from support.architectures.talks import adapted, talk

from marith.scoring.language_model.runner import start_runner

SAMPLE = (
    "llama", "gpt2", "mixtral", "deepseek_v3", "phi3", "mpt", "llama rope dynamic",
    "big_bird block sparse", "phi3 longrope, long", "gpt_neo", "gemma2", "mistral",
    "gpt_oss", "llama4_text", "bloom", "rwkv", "xlm",
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


def test_another_models_answers_are_far_off(tmp_path: Path) -> None:
    model, other = build("llama"), build("arcee")
    runner = start_runner(model, 258, 512)
    assert talk(runner, model, 40) < CLOSE
    assert talk(runner, other, 40) > 0.1
    assert adapted(runner, model, tmp_path, 40) < CLOSE
    merged = adapt(model, adaptable(model), tmp_path / "again")
    tokens = [5, 9, 7]
    assert float((uncached(merged, tokens) - uncached(model, tokens)).abs().max()) > 0.1
