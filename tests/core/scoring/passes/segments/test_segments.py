"""Lanes that share segments: answered as without a cache, held once, read once."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.architectures import build
from support.runner_questions import CONTEXT, VOCAB, ask, span_of, text, uncached

from marith.scoring.choose_runner import start_runner
from marith.scoring.passes import lanes as lanes_module
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.segments import segment_cache, segment_lanes
from marith.testing import FAMILIES, tiny_model

NAMES = (*FAMILIES, "gemma2", "gpt_oss", "llama4_text", "mistral")
EACH = max(5, settings().max_examples // len(NAMES))
Share = tuple[int, int, list[int], int, bool]


@cache
def model_of(name: str) -> Any:
    return tiny_model(name) if name in FAMILIES else build(name)


def runner_by_segments(model: Any, **options: Any) -> CachedRunner:
    runner = start_runner(model, int(model.config.get_text_config().vocab_size), CONTEXT, **options)
    assert isinstance(runner, CachedRunner)
    assert isinstance(runner.lanes, segment_lanes.SegmentLanes)
    return runner


@st.composite
def shares(draw: st.DrawFn) -> list[list[Share]]:
    """Rounds of (lane, how much of the shared text, tail, count, released after)."""
    one = st.tuples(
        st.integers(0, 6),
        st.sampled_from([0, 7, 20, 33, 60]),
        st.lists(st.integers(0, 2), max_size=12),
        st.integers(1, 6),
        st.booleans(),
    )
    together = st.lists(one, min_size=1, max_size=5, unique_by=lambda item: item[0])
    return draw(st.lists(together, min_size=1, max_size=6))


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=EACH)
@given(script=shares(), most=st.sampled_from([2**30, 20_000]), lazy=st.booleans())
def test_texts_that_begin_alike_are_answered_as_without_a_cache(
    name: str, script: list[list[Share]], most: int, lazy: bool
) -> None:
    model = model_of(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_lanes, "SHORT", 2)
        patch.setattr(segment_lanes, "KEPT_BEHIND", 1)
        patch.setattr(segment_lanes, "STEP", 1)
        patch.setattr(lanes_module, "SHORT_PREFIX", 2)
        patch.setattr(segment_cache, "lazy", lambda device: lazy and device.type == "cpu")
        runner = runner_by_segments(model, cache_bytes=most)
        for together in script:
            asked = []
            for lane, shared, tail, count, _ in together:
                whole = [*text(shared), *tail] or [1]
                asked.append(span_of(lane, whole, min(count, len(whole))))
            for question, answer in zip(asked, ask(runner, asked), strict=True):
                want = uncached(model, question.tokens, question.count)
                torch.testing.assert_close(answer.logprobs, want, atol=1e-3, rtol=0)
            for lane, _, _, _, released in together:
                if released:
                    runner.release(lane)


def test_a_shared_prefix_is_held_once() -> None:
    runner = start_runner(tiny_model(context_length=700), VOCAB, 700)
    shared = text(400)
    ask(runner, [span_of(i, [*shared, i, *text(20)]) for i in range(8)])
    assert isinstance(runner, CachedRunner)
    lanes = runner.lanes
    assert isinstance(lanes, segment_lanes.SegmentLanes)
    assert lanes.nbytes == lanes.cache.bytes_of(*[400 + 8 * 21] * 2)


def test_texts_that_begin_alike_may_reach_the_end_of_the_context() -> None:
    model = tiny_model(context_length=512)
    runner = start_runner(model, VOCAB, 512)
    shared = text(300)
    for length in (200, 209, 210):
        asked = [span_of(i, [*shared, i, *text(length)]) for i in range(3)]
        for i, answer in enumerate(ask(runner, asked)):
            want = uncached(model, [*shared, i, *text(length)])
            torch.testing.assert_close(answer.logprobs, want, atol=1e-4, rtol=0)


def test_a_prefix_of_an_idle_lane_is_copied_once_and_a_prompt_is_continued() -> None:
    runner = start_runner(tiny_model(context_length=700), VOCAB, 700)
    assert isinstance(runner, CachedRunner)
    lanes, prompt = runner.lanes, text(400)
    assert isinstance(lanes, segment_lanes.SegmentLanes)
    ask(runner, [span_of("first", prompt, continuation=text(50))])
    runner.release("first")
    # An answer to the same prompt is read in the same row.
    ask(runner, [span_of("again", prompt, continuation=[3, *text(40)])])
    assert lanes.nbytes == lanes.cache.bytes_of(*[441] * 2)
    runner.release("again")
    # One of several texts that begin like an idle lane copies the prefix, and the others share it.
    ask(runner, [span_of(i, [*prompt[:300], i, *text(20)]) for i in range(4)])
    assert lanes.nbytes == lanes.cache.bytes_of(*[441 + 300 + 4 * 21] * 2)
    [own] = [lane for lane in lanes if lane.owner is not None and lane.parent is None]
    assert own.start == 0


@pytest.mark.skipif(not segment_cache.lazy(torch.device("cpu")), reason="memory is taken at once")
def test_a_copied_prefix_takes_no_memory_behind_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("mistral")
    monkeypatch.setattr(segment_lanes, "STEP", 1)
    runner = runner_by_segments(model)
    lanes = runner.lanes
    assert isinstance(lanes, segment_lanes.SegmentLanes)
    long = text(200)
    ask(runner, [span_of("a", [*long, 1, 2, 3])])
    lanes.make_room(0)
    runner.release("a")
    ask(runner, [span_of("b", [*long[:160], *text(40)])])
    source, target = sorted(lanes, key=lambda lane: lane.used)
    assert source.lost > 50
    assert target.parent is None
    keys = lanes.cache.layers[0].keys[target.row, :, : source.lost]
    assert not bool(keys.any())


def test_memory_depends_on_the_tokens_held_and_not_on_the_longest_text() -> None:
    model = tiny_model(context_length=4000)
    runner = start_runner(model, VOCAB, 4000)
    assert isinstance(runner, CachedRunner)
    ask(runner, [span_of(i, [i, *text(20)]) for i in range(20)])
    before = resident()
    ask(runner, [span_of("long", text(3000))])
    lanes = runner.lanes
    assert isinstance(lanes, segment_lanes.SegmentLanes)
    assert lanes.nbytes == lanes.cache.bytes_of(*[3000 + 20 * 21] * 2)
    assert resident() - before < 3 * lanes.cache.bytes_of(3000, 3000) + 2**24
    runner.forget()
    assert lanes.nbytes == 0


def resident() -> int:
    """Bytes of this process that lie in memory."""
    with open("/proc/self/status") as file:
        [line] = [line for line in file if line.startswith("VmRSS")]
    return int(line.split()[1]) * 1024


def test_rolling_back_a_lane_does_not_change_lanes_that_share_its_prefix() -> None:
    model = model_of("llama")
    runner = runner_by_segments(model)
    shared = text(90)
    ask(runner, [span_of("first", shared)])
    ask(runner, [span_of("second", [*shared[:80], 1, *text(17)])])
    for tokens in (shared[:70], [*shared[:70], 5, 5, 5]):  # written over what the second reads
        [answer] = ask(runner, [span_of("first", tokens)])
        torch.testing.assert_close(answer.logprobs, uncached(model, tokens), atol=1e-4, rtol=0)
    later = [*shared[:80], 1, *text(17), 2]
    [answer] = ask(runner, [span_of("second", later)])
    assert answer.cached == len(later) - 1
    torch.testing.assert_close(answer.logprobs, uncached(model, later), atol=1e-4, rtol=0)


def test_layers_with_windows_hold_only_their_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("gemma3_text")
    monkeypatch.setattr(segment_lanes, "KEPT_BEHIND", 4)
    monkeypatch.setattr(segment_lanes, "STEP", 1)
    runner = runner_by_segments(model)
    lanes = runner.lanes
    assert isinstance(lanes, segment_lanes.SegmentLanes)
    for length in (100, 101, 110):
        [answer] = ask(runner, [span_of("a", text(length))])
        want = uncached(model, text(length))
        torch.testing.assert_close(answer.logprobs, want, atol=1e-3, rtol=0)
    lanes.make_room(0)
    window = model.config.sliding_window
    assert lanes.nbytes == lanes.cache.bytes_of(110, window + 4)
    for length in (109, 60):  # within the window that is held, and before it
        [answer] = ask(runner, [span_of("a", text(length))])
        assert answer.cached == (length - 1 if length == 109 else 0)
        want = uncached(model, text(length))
        torch.testing.assert_close(answer.logprobs, want, atol=1e-3, rtol=0)


def test_other_threads_may_run_the_model_during_a_pass() -> None:
    model = tiny_model()
    first, second = runner_by_segments(model), runner_by_segments(model)
    tokens, found = text(20), []

    def meanwhile(*_: Any) -> None:
        hook.remove()
        found.append(uncached(model, tokens))
        [answer] = ask(second, [span_of("b", tokens)])
        found.append(answer.logprobs)
        found.append(first.passes.exits.layers)

    ask(first, [span_of("a", tokens[:9])])
    hook = first.passes.reader.model.layers[0].register_forward_hook(meanwhile)
    [answer] = ask(first, [span_of("a", tokens)])
    want = uncached(model, tokens)
    for logprobs in (answer.logprobs, found[0], found[1]):
        torch.testing.assert_close(logprobs, want, atol=1e-4, rtol=0)
    assert found[2] == len(model.model.layers)
    assert model.config._attn_implementation == "sdpa"
