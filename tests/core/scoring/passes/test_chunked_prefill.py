"""How much of long texts one call reads: alone, and beside texts that go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.architectures import build
from support.runner_questions import VOCAB, ask, span_of, text

from marith.scoring.choose_runner import start_runner
from marith.scoring.lane_text import LaneText
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.chunked_prefill import CHUNK, SMALL_CHUNK, PrefillLimits
from marith.scoring.passes.segments.segment_lanes import SegmentLanes
from marith.testing import tiny_model

GB = 10**9


def test_a_long_prompt_is_read_in_smaller_pieces_while_others_go_on() -> None:
    runner = start_runner(tiny_model(context_length=700), VOCAB, 700)
    assert isinstance(runner, CachedRunner)
    prompt, sizes, answered = text(9), [], False
    ask(runner, [span_of("chat", prompt)])
    for place in range(200):
        chat = span_of("chat", prompt, continuation=text(place + 1))
        lane = runner.lanes.held.get("long")
        before = len(lane.tokens) if lane else 0
        asked = [chat] if place < 5 or answered else [chat, span_of("long", text(400))]
        answers = runner.ask(asked)
        assert answers[0] is not None
        if len(asked) == 2:
            sizes.append(len(runner.lanes.held["long"].tokens) - before)
            answered = answers[1] is not None
    assert answered
    assert sum(sizes) == 400
    assert max(sizes) == SMALL_CHUNK


@pytest.mark.parametrize(
    ("nbytes", "beside"), [(2.2 * GB, 8192), (14 * GB, 2048), (140 * GB, 204), (GB**2, 1)]
)
def test_an_accelerator_reads_a_large_model_in_smaller_pieces_beside_others(
    nbytes: float, beside: int
) -> None:
    limits = PrefillLimits.of_device(True, int(nbytes))
    assert (limits.alone, limits.beside) == (8192, beside)
    assert limits.beside_texts(0) == 8192
    assert limits.beside_texts(3) == max(beside, 3)
    few = PrefillLimits.of_device(True, int(nbytes), 100)
    assert (few.alone, few.beside) == (100, min(beside, 100))


def test_a_cpu_reads_as_much_of_every_model() -> None:
    assert PrefillLimits.of_device(False, 14 * GB) == PrefillLimits(CHUNK, SMALL_CHUNK)
    limits = PrefillLimits.of_device(False, 14 * GB, 1000)
    assert limits == PrefillLimits(1000, SMALL_CHUNK)
    # The steps of many texts are long anyway, but no call reads more than it reads alone.
    assert [limits.beside_texts(going) for going in (0, 1, 200, 2000)] == [1000, 64, 200, 1000]


KINDS: dict[str, Callable[[], Any]] = {
    "segments": lambda: tiny_model(context_length=4000),
    "rectangle": lambda: tiny_model(context_length=4000),
    "states": lambda: build("mamba2"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("most", [40, 700, None])
def test_every_runner_reads_at_most_the_tokens_that_were_set(kind: str, most: int | None) -> None:
    model, capture = KINDS[kind](), kind == "rectangle"
    vocab = model.config.vocab_size
    runner = start_runner(model, vocab, 4000, capture=capture, max_batched_tokens=most)
    questions = [span_of(i, [i, *text(599)]) for i in range(3)]
    read, answers = [], [None]
    while None in answers:
        before = runner.passes.tokens_read
        answers = [*runner.ask(questions)]
        read.append(runner.passes.tokens_read - before)
        questions = [one for one, answer in zip(questions, answers, strict=True) if answer is None]
    # A pass over states ends at a multiple of a chunk, and the first pass of a call is always read.
    most = most or CHUNK
    at_most = max(most, CHUNK) if kind == "states" else most
    # A text that lacks few tokens is read in addition.
    assert at_most - CHUNK <= max(read) <= at_most + 3 * 16
    assert sum(read) == 3 * 600


def test_a_layer_with_a_window_counts_with_the_tokens_that_one_call_reads() -> None:
    model, tokens = build("mistral"), tuple(text(900))
    vocab = model.config.vocab_size
    runner = start_runner(model, vocab, 4000, max_batched_tokens=900)
    assert isinstance(runner, CachedRunner)
    assert isinstance(runner.lanes, SegmentLanes)
    [answer] = runner.ask([span_of("long", tokens)])
    assert answer is not None
    held = runner.lanes.cache.bytes_of(900, 900)
    assert runner.lanes.nbytes == held <= runner.memory([LaneText.of(None, tokens)])
