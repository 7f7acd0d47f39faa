"""What was read of a text serves texts of its own salt, and of its public tokens all others."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.architectures import build
from support.asking import ask, text, uncached

from marith.scoring.kv_cache.lanes import LEAST_LENT, Scope, common
from marith.scoring.kv_cache.planned import BLOCK, COPIED, Planned, own_lengths
from marith.scoring.language_model.asked import Asked
from marith.scoring.language_model.runner import start_runner
from marith.testing import tiny_model

CONTEXT = 700
SYSTEM, LONG = [*text(23), *text(77)], [*text(23), *text(277)]
KINDS: dict[str, tuple[Any, Any]] = {
    "segments": (lambda: tiny_model(context_length=CONTEXT), None),
    "rectangles": (lambda: tiny_model(context_length=CONTEXT), True),
    "states": (lambda: build("qwen3_next"), None),
    "windows": (lambda: build("mistral"), None),
}
LENDING = [kind for kind in KINDS if kind != "windows"]
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
    same = draw(st.sampled_from([0, 40, 70, 99]))
    tail = draw(st.lists(st.integers(0, 3), min_size=1, max_size=30))
    public = draw(st.sampled_from([0, 0, 35, 65, same]))
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
        scope = Scope(salt, public, runner.lends)
        [answer] = ask(runner, [Asked(lane, prompt, scope=scope)])
        shared = [scope.shared(of, common(list(read), list(prompt))) for of, read in before]
        assert answer.cached <= max(shared, default=0)
        want = uncached(model_of(kind), prompt)
        torch.testing.assert_close(answer.logprobs, want, atol=1e-3, rtol=0)
        before.append((scope, prompt))
        if not stays:
            runner.release(lane)


def cached(kind: str, asked: list[tuple[Scope, tuple[int, ...]]]) -> list[int]:
    """How much of each text is at hand, asked one after another."""
    runner, found = runner_of(kind), []
    for lane, (scope, prompt) in enumerate(asked):
        [answer] = ask(runner, [Asked(lane, prompt, scope=scope)])
        runner.release(lane)
        found.append(answer.cached)
        want = uncached(model_of(kind), prompt)
        torch.testing.assert_close(answer.logprobs, want, atol=1e-3, rtol=0)
    return found


@pytest.mark.parametrize("kind", LENDING)
def test_public_tokens_serve_every_salt_and_no_others_do(kind: str) -> None:
    """Of states those up to the last whole chunk, 256 tokens."""
    end = 256 if kind == "states" else 290
    ends = {"a": 290, "b": 290, "c": 0, "d": 280}
    asked = [
        (Scope(salt, ends[salt]), (*LONG[:290], *[tail] * 30))
        for salt, tail in [("a", 5), ("b", 5), ("c", 5), ("d", 6), ("b", 5)]
    ]
    assert cached(kind, asked) == [0, end, 0, min(end, 280), 319]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("public", [1, LEAST_LENT - 1, LEAST_LENT, 290])
def test_what_is_at_hand_says_nothing_of_how_long_anothers_text_is(kind: str, public: int) -> None:
    """Nor whether it is: only that somebody's begins with the same system prompt."""
    system, found = tuple(LONG[:public]), set()
    for others in (1, 10, 17, 70, 300):
        asked = [
            (Scope("a", public, runner_of(kind).lends), (*system, *[3] * others)),
            (Scope("b", public, runner_of(kind).lends), (*system, *[5] * 20)),
        ]
        found.add(cached(kind, asked)[1])
    lent = kind in LENDING and public >= LEAST_LENT
    in_chunks = public // 256 * 256 if kind == "states" else public
    assert found == {in_chunks if lent else 0}


@pytest.mark.parametrize("kind", ["segments", "rectangles"])
def test_a_text_in_flight_serves_its_own_salt_whatever_other_salts_hold(kind: str) -> None:
    found = set()
    for others in (1, 15, 16, 30):
        runner = runner_of(kind)
        mine, theirs = (*SYSTEM, *[5] * 10), (*SYSTEM, *[3] * others)
        ask(runner, [Asked("in flight", mine, scope=Scope("b", 100))])
        ask(runner, [Asked("theirs", theirs, scope=Scope("a", 100))])
        runner.release("theirs")
        [answer] = ask(runner, [Asked("again", mine, scope=Scope("b", 100))])
        found.add(answer.cached)
        for lane in ("in flight", "again"):
            runner.release(lane)
    assert found == {109}


@pytest.mark.parametrize("kind", KINDS)
def test_whoever_writes_a_part_of_a_system_prompt_is_not_told_so(kind: str) -> None:
    """By no salt: where less is public, no more than that is shared."""
    for salt in "ab":
        found = set()
        for right in (30, 69, 70, 90, 99):
            guess = (*SYSTEM[:right], *[2] * 30)
            found.add(cached(kind, [(Scope("a", 100), (*SYSTEM, 1)), (Scope(salt, 1), guess)])[1])
        assert found <= {0, 1}


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
    blocks = min(one, other) // BLOCK * BLOCK if min(one, other) >= LEAST_LENT else 0
    assert [*own_lengths(texts)] == [124, 124 - max(0, blocks - COPIED)]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 120), st.integers(0, 120))))
def test_memory_counts_no_less_than_is_held(asked: list[tuple[str, int, int]]) -> None:
    texts = [Planned(None, LONG[:end], 0, Scope(s, min(n, end))) for s, n, end in asked]
    before: list[tuple[Scope, int]] = []
    for text_, counted in zip(texts, own_lengths(texts), strict=True):
        shared = [of.shared(text_.scope, min(end, text_.length)) for of, end in before]
        assert counted >= text_.length - max(shared, default=0)
        before.append((text_.scope, text_.length))
