"""Lanes share prefixes, and no text waits until a long text has been read."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from support.architectures import build
from support.runner_questions import CLOSE, CONTEXT, VOCAB, ask, runner_of, span_of, text, uncached

from marith.scoring.choose_runner import start_runner
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.chunked_prefill import CHUNK, FEW_TOKENS
from marith.scoring.passes.rectangle.rectangle_lanes import RectangleLanes
from marith.testing import FAMILIES, tiny_model

cached_model = cache(tiny_model)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_new_lane_copies_the_prefix_of_a_busy_lane(family: str) -> None:
    model = cached_model(family)
    runner = runner_of(model)
    ask(runner, [span_of("first", text(50))])
    passes = runner.passes.count
    [answer] = ask(runner, [span_of("second", [*text(40), *[9] * 20])])
    assert answer.cached == 40
    assert runner.passes.count == passes + 1
    want = uncached(model, [*text(40), *[9] * 20])
    torch.testing.assert_close(answer.logprobs, want, atol=CLOSE, rtol=0)
    assert ask(runner, [span_of("first", text(51))])[0].cached == 50


def test_a_system_prompt_that_many_share_is_read_once() -> None:
    model = tiny_model(context_length=700)
    runner, read = start_runner(model, VOCAB, 700), []
    runner.passes.reader.register_forward_pre_hook(
        lambda _, args, kwargs: read.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    shared = text(400)
    ask(runner, [span_of(i, [*shared, i, i + 1, i + 2]) for i in range(8)])
    assert sum(read) < 400 + 8 * (3 + FEW_TOKENS)


def test_a_text_waits_for_at_most_one_chunk_of_other_texts() -> None:
    model = tiny_model(context_length=2000)
    runner, read = start_runner(model, VOCAB, 2000), []
    runner.passes.reader.register_forward_pre_hook(
        lambda _, args, kwargs: read.append(kwargs["input_ids"].numel()), with_kwargs=True
    )
    short, long = text(5), [span_of(f"long {i}", [i, *text(999)]) for i in range(3)]
    ask(runner, [span_of("short", short)])
    while long:
        read.clear()
        short = [*short, 3]
        first, *answers = runner.ask([span_of("short", short), *long])
        assert first is not None
        assert sum(read) <= 1 + CHUNK
        long = [asked for asked, answer in zip(long, answers, strict=True) if answer is None]


def test_short_prompts_are_read_before_long_ones() -> None:
    runner = start_runner(tiny_model(context_length=4000), VOCAB, 4000)
    questions = [span_of(i, [i, *text(length)]) for i, length in enumerate((1500, 90, 100))]
    long, *short = runner.ask(questions)
    assert long is None
    assert all(answer is not None for answer in short)


@pytest.mark.parametrize("length", [300, 3000])
def test_a_long_prompt_waits_for_short_ones_about_as_long_as_its_own_reading_takes(
    length: int,
) -> None:
    runner = start_runner(tiny_model(context_length=4000), VOCAB, 4000)
    long, calls = span_of("long", [1, *text(length)]), 0
    while calls < 1000:
        calls += 1
        short = [span_of((calls, i), [i, calls % VOCAB, *text(200)]) for i in range(2)]
        answer, *_ = runner.ask([long, *short])
        for asked in short:
            runner.release(asked.lane)
        if answer is not None:
            break
    assert calls <= 2 * -(-length // CHUNK) + 2


def test_adjacent_rows_are_read_without_a_copy() -> None:
    model = build("gptj")  # whose own code computes attention, so that it reads a rectangle
    runner = start_runner(model, model.config.vocab_size, CONTEXT)
    assert isinstance(runner, CachedRunner)
    questions = [span_of(i, [i, *text(20)]) for i in range(6)]
    ask(runner, questions)
    for gone in (1, 3):
        runner.release(gone)
    kept = [span_of(q.lane, [*q.tokens, 7]) for q in questions if q.lane not in (1, 3)]
    for question, answer in zip(kept, ask(runner, kept), strict=True):
        want = uncached(runner.passes.model, question.tokens)
        torch.testing.assert_close(answer.logprobs, want, atol=CLOSE, rtol=0)
    assert isinstance(runner.lanes, RectangleLanes)
    assert isinstance(runner.lanes.cache._view, slice)
