"""Cached prefixes serve texts of their own salt, and of no other."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.architectures import build
from support.runner_questions import ask, span_of, text, uncached

from marith.scoring.choose_runner import start_runner
from marith.scoring.lane_text import BLOCK, COPIED, LaneText, common, own_lengths
from marith.testing import tiny_model

CONTEXT = 700
SYSTEM, LONG = [*text(23), *text(77)], [*text(23), *text(277)]
KINDS: dict[str, tuple[Any, Any]] = {
    "segments": (lambda: tiny_model(context_length=CONTEXT), None),
    "rectangles": (lambda: tiny_model(context_length=CONTEXT), True),
    "states": (lambda: build("qwen3_next"), None),
    "windows": (lambda: build("mistral"), None),
}
EACH = max(5, settings().max_examples // 10)


@cache
def model_of(kind: str) -> Any:
    return KINDS[kind][0]()


@cache
def started(kind: str) -> Any:
    model = model_of(kind)
    width = int(model.config.vocab_size)
    return start_runner(model, width, CONTEXT, capture=KINDS[kind][1])


def runner_of(kind: str) -> Any:
    """A runner that holds nothing."""
    runner = started(kind)
    runner.forget()
    return runner


@st.composite
def questions(draw: st.DrawFn) -> tuple[str | None, tuple[int, ...], bool]:
    """A salt, a text of a few that begin alike, and whether its lane stays."""
    same = draw(st.sampled_from([0, 40, 70, 99]))
    tail = draw(st.lists(st.integers(0, 3), min_size=1, max_size=30))
    salt = draw(st.sampled_from(["a", "b", None]))
    return salt, (*SYSTEM[:same], *tail), draw(st.booleans())


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=EACH)
@given(script=st.lists(questions(), min_size=1, max_size=12))
def test_only_prefixes_of_the_same_salt_are_cached(
    kind: str, script: list[tuple[str | None, tuple[int, ...], bool]]
) -> None:
    runner, before = runner_of(kind), []
    for lane, (salt, prompt, stays) in enumerate(script):
        [answer] = ask(runner, [span_of(lane, prompt, salt=salt)])
        shared = [common(list(read), list(prompt)) for of, read in before if of == salt]
        assert answer.cached <= max(shared, default=0)
        want = uncached(model_of(kind), prompt)
        torch.testing.assert_close(answer.logprobs, want, atol=1e-3, rtol=0)
        before.append((salt, prompt))
        if not stays:
            runner.release(lane)


def cached(kind: str, asked: list[tuple[str | None, tuple[int, ...]]]) -> list[int]:
    """How much of each text is at hand, asked one after another."""
    runner, found = runner_of(kind), []
    for lane, (salt, prompt) in enumerate(asked):
        [answer] = ask(runner, [span_of(lane, prompt, salt=salt)])
        runner.release(lane)
        found.append(answer.cached)
        want = uncached(model_of(kind), prompt)
        torch.testing.assert_close(answer.logprobs, want, atol=1e-3, rtol=0)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_equal_salts_share_and_different_ones_do_not(kind: str) -> None:
    prompt = (*LONG[:290], *[5] * 30)
    salts = ["a", "b", None, "b", None, "a"]
    assert cached(kind, [(salt, prompt) for salt in salts]) == [0, 0, 0, 319, 319, 319]


@pytest.mark.parametrize("kind", KINDS)
def test_cached_tokens_reveal_nothing_about_other_salts(kind: str) -> None:
    """Neither whether it has, nor how long the text is, nor how much of it is alike."""
    mine = ("b", (*LONG, *[5] * 20))
    for alike in (1, 64, 300):
        for others in (1, 17, 300):
            theirs = ("a", (*LONG[:alike], *[3] * others))
            assert cached(kind, [theirs, mine])[1] == 0


@pytest.mark.parametrize("kind", ["segments", "rectangles"])
def test_a_text_in_flight_serves_its_own_salt_whatever_other_salts_hold(kind: str) -> None:
    found = set()
    for others in (1, 15, 16, 30):
        runner = runner_of(kind)
        mine, theirs = (*SYSTEM, *[5] * 10), (*SYSTEM, *[3] * others)
        ask(runner, [span_of("in flight", mine, salt="b")])
        ask(runner, [span_of("theirs", theirs, salt="a")])
        runner.release("theirs")
        [answer] = ask(runner, [span_of("again", mine, salt="b")])
        found.add(answer.cached)
        for lane in ("in flight", "again"):
            runner.release(lane)
    assert found == {109}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 120))))
def test_memory_counts_what_a_salt_shares_once_and_no_less_than_is_held(
    asked: list[tuple[str, int]],
) -> None:
    texts = [LaneText.of(salt, LONG[:end], 4) for salt, end in asked]
    before: list[tuple[str, int]] = []
    for (salt, end), text_, counted in zip(asked, texts, own_lengths(texts), strict=True):
        shared = max((min(end, other) for of, other in before if of == salt), default=0)
        assert counted == text_.length - max(0, shared // BLOCK * BLOCK - COPIED)
        before.append((salt, end))
