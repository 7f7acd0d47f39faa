"""What was read of a text serves texts of its own salt, and of its public tokens all others."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.architectures import build
from support.asking import CLOSE, ask, text, uncached

from marith.scoring.kv_cache.lanes import Scope, common
from marith.scoring.kv_cache.planned import BLOCK, COPIED, Planned, own_lengths
from marith.scoring.language_model.asked import Asked
from marith.scoring.language_model.runner import start_runner
from marith.testing import tiny_model

CONTEXT = 700
SYSTEM, LONG = text(70), [*text(23), *text(277)]
KINDS: dict[str, tuple[Any, Any]] = {
    "segments": (lambda: tiny_model(context_length=CONTEXT), None),
    "rectangles": (lambda: tiny_model(context_length=CONTEXT), True),
    "states": (lambda: build("qwen3_next"), None),
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
def questions(draw: st.DrawFn) -> tuple[str | None, int, tuple[int, ...], bool]:
    """A salt, how much is public, a text of a few that begin alike, and whether its lane stays."""
    same = draw(st.sampled_from([0, 20, 45, 69]))
    tail = draw(st.lists(st.integers(0, 3), min_size=1, max_size=30))
    public = draw(st.sampled_from([0, 0, 19, 40, same]))
    salt = draw(st.sampled_from(["a", "b", None]))
    return salt, min(public, same), (*SYSTEM[:same], *tail), draw(st.booleans())


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=EACH)
@given(script=st.lists(questions(), min_size=1, max_size=12))
def test_no_more_is_at_hand_than_its_scope_allows(
    kind: str, script: list[tuple[str | None, int, tuple[int, ...], bool]]
) -> None:
    runner, before = runner_of(kind), []
    for lane, (salt, public, prompt, stays) in enumerate(script):
        scope = Scope(salt, public)
        [answer] = ask(runner, [Asked(lane, prompt, scope=scope)])
        shared = [scope.shared(of, common(list(read), list(prompt))) for of, read in before]
        assert answer.cached <= max(shared, default=0)
        want = uncached(model_of(kind), prompt)
        torch.testing.assert_close(answer.logprobs, want, atol=1e-3, rtol=0)
        before.append((scope, prompt))
        if not stays:
            runner.release(lane)


@pytest.mark.parametrize("kind", KINDS)
def test_public_tokens_serve_every_salt_and_no_others_do(kind: str) -> None:
    """Of states those up to the last whole chunk, 256 tokens."""
    runner, end = runner_of(kind), 256 if kind == "states" else 290
    cached = []
    for lane, (salt, public, tail) in enumerate(
        [("a", 290, 5), ("b", 290, 5), ("c", 0, 5), ("d", 280, 6), ("b", 290, 5)]
    ):
        prompt = (*LONG[:290], *[tail] * 30)
        [answer] = ask(runner, [Asked(lane, prompt, scope=Scope(salt, public))])
        runner.release(lane)
        cached.append(answer.cached)
        want = uncached(model_of(kind), prompt)
        torch.testing.assert_close(answer.logprobs, want, atol=10 * CLOSE, rtol=0)
    assert cached == [0, end, 0, min(end, 280), 319]


def test_requests_in_flight_together_read_public_tokens_once() -> None:
    runner = runner_of("segments")
    prompts = [(*LONG, letter, 3, letter) for letter in (5, 6, 7)]
    for public, expected in ((0, 3 * 303), (300, 300 + 3 * 3)):
        runner.passes.forget_counts()
        lanes = [(public, i) for i in range(3)]
        asked = [
            Asked(lane, prompt, scope=Scope(str(lane), public))
            for lane, prompt in zip(lanes, prompts, strict=True)
        ]
        ask(runner, asked)
        assert runner.passes.tokens_read == expected
        for lane in lanes:
            runner.release(lane)


@given(st.integers(0, 120), st.integers(0, 120))
def test_memory_counts_public_tokens_once(one: int, other: int) -> None:
    texts = [Planned(None, LONG[:120], 4, Scope(s, n)) for s, n in (("a", one), ("b", other))]
    blocks = min(one, other) // BLOCK * BLOCK
    assert [*own_lengths(texts)] == [124, 124 - max(0, blocks - COPIED)]
