"""Models with unusual caches, and the warning about models that accept no cache."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.architectures import build
from support.runner_questions import CONTEXT, ask, span_of, text, uncached

from marith.scoring.choose_runner import start_runner
from marith.scoring.notices import collecting
from marith.scoring.passes.passes import Runner
from marith.scoring.passes.plain_runner import PlainRunner
from marith.scoring.passes.states.state_runner import StateRunner


def started(model: Any, context_length: int = CONTEXT) -> tuple[Runner, list[str]]:
    """A runner and the warnings of its start."""
    with collecting() as said:
        runner = start_runner(model, model.config.get_text_config().vocab_size, context_length)
    return runner, said


def check(runner: Any, model: Any) -> None:
    """Two texts of unequal length, drafts that are taken back, and single tokens."""
    long, short = text(60), text(7)
    scripts = (([], 1), ([3], 1), ([3, 4, 5, 6], 3), ([3, 9], 1), ([3, 9, 2], 1))
    for tail, count in scripts:
        asked = [span_of("long", [*long, *tail], count), span_of("short", [*short, *tail], count)]
        for question, answer in zip(asked, ask(runner, asked), strict=True):
            want = uncached(model, question.tokens, count)
            torch.testing.assert_close(answer.logprobs, want, atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["bamba", "bart with one layer that encodes"])
def test_positions_are_passed_to_a_model_and_decoder_layers_are_counted(name: str) -> None:
    model = build(name)
    runner, said = started(model)
    assert isinstance(runner, StateRunner)
    assert not said
    check(runner, model)
    runner.passes.forget_counts()
    ask(runner, [span_of("long", [*text(60), 3, 9, 2, 8])])
    assert runner.passes.tokens_read == 1


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("blt", "num_hidden_layers"),
        ("moshi", "cached and uncached passes differ by"),  # a window that only its own cache has
        ("minimax", "MiniMax uses cache of its own"),
        ("recurrent_gemma", "cached and uncached passes differ by"),
        ("rwkv", "its code has no argument for a cache"),
        ("xlm", "its code has no argument for a cache"),
        ("xlstm", "its code does not take a cache of marith"),
    ],
)
def test_the_reason_for_having_no_cache_is_given(name: str, reason: str) -> None:
    model = build(name)
    runner, [warning] = started(model)
    assert isinstance(runner, PlainRunner)
    assert reason in warning
    assert "layers of kind" not in warning
    [answer] = ask(runner, [span_of("a", text(12))])
    torch.testing.assert_close(answer.logprobs, uncached(model, text(12)), atol=1e-4, rtol=0)
