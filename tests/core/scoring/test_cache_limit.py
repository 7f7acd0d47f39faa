"""One limit for the caches of several models: idle lanes are dropped, and no answer changes."""

from __future__ import annotations

import gc
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.architectures import build
from support.runner_questions import CONTEXT, ask, span_of, text, uncached

from marith.scoring.cache_limit import CacheLimit, Keeper
from marith.scoring.choose_runner import start_runner
from marith.testing import tiny_model

NAMES = ("gpt2", "mamba", "gptj")  # whose keys lie in segments, in states, and in a rectangle


@cache
def model_of(name: str) -> Any:
    return tiny_model() if name == "gpt2" else build(name)


def runner_of(name: str, limit: CacheLimit) -> Any:
    model = model_of(name)
    runner = start_runner(model, model.config.vocab_size, CONTEXT, limit.most_bytes)
    runner.join(limit)
    return runner


def kept_by(runner: Any) -> Keeper:
    keeper = runner.states if hasattr(runner, "states") else runner.lanes
    assert isinstance(keeper, Keeper)
    return keeper


def read(runner: Any, name: str, tokens: list[int], lane: int = 0) -> None:
    """Let a lane read a text, and compare with the model itself."""
    [answer] = ask(runner, [span_of(lane, tokens)])
    want = uncached(model_of(name), tokens)
    torch.testing.assert_close(answer.logprobs, want, atol=1e-3, rtol=0)


steps = st.tuples(
    st.integers(0, len(NAMES) - 1), st.integers(0, 3), st.integers(1, 60), st.booleans()
)


@settings(max_examples=max(10, settings().max_examples // 2))
@given(st.lists(steps, max_size=12), st.sampled_from([0, 30_000, 2**30]))
def test_together_they_keep_no_more_than_the_limit(
    script: list[tuple[int, int, int, bool]], most: int
) -> None:
    limit = CacheLimit(most)
    runners = [runner_of(name, limit) for name in NAMES]
    keepers = [kept_by(runner) for runner in runners]
    in_use: dict[tuple[int, int], bool] = {}
    for number, lane, length, released in script:
        read(runners[number], NAMES[number], [lane, *text(length)], lane)
        in_use[number, lane] = True
        if released:
            runners[number].release(lane)
            del in_use[number, lane]
        if not in_use and released:
            assert limit.nbytes == sum(keeper.nbytes for keeper in keepers) <= most
    for number, lane in in_use:
        runners[number].release(lane)
    assert limit.nbytes <= most


@pytest.mark.parametrize("name", ["gpt2", "mamba"])
def test_the_model_that_was_used_longest_ago_drops_its_lanes_first(name: str) -> None:
    limit = CacheLimit(2**30)
    first, second, third = (runner_of(name, limit) for _ in range(3))
    for runner in (second, first, third):
        read(runner, name, text(50))
        runner.release(0)
    before = kept_by(first).nbytes
    limit.most_bytes = 5 * before // 2
    read(third, name, text(55))
    assert kept_by(first).nbytes == before
    assert kept_by(second).nbytes < before


@pytest.mark.parametrize("name", NAMES)
def test_lanes_in_use_stay_whatever_others_need(name: str) -> None:
    limit = CacheLimit(1)
    first, second = (runner_of(name, limit) for _ in range(2))
    read(first, name, text(50))
    read(second, name, text(50))
    [answer] = ask(first, [span_of(0, [*text(50), 1])])
    assert answer.cached == 50


def test_a_model_that_is_gone_counts_no_more() -> None:
    limit = CacheLimit(2**30)
    runner = runner_of("gpt2", limit)
    read(runner, "gpt2", text(50))
    assert limit.nbytes > 0
    del runner
    gc.collect()
    assert limit.nbytes == 0
