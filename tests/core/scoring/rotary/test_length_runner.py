"""Whatever its length, a text is answered as by the uncached model that reads each prefix."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from support.asking import CLOSE, CONTEXT, VOCAB, ask, text, uncached
from support.rotary_models import KINDS, LIMIT, rotary_model
from support.rounds import Round, play, rounds

from marith.scoring.kv_cache.chunked_prefill import CHUNK
from marith.scoring.kv_cache.planned import Planned
from marith.scoring.language_model.asked import Answer, Asked
from marith.scoring.language_model.cached_runner import CachedRunner
from marith.scoring.language_model.lanewise_runner import LanewiseRunner
from marith.scoring.language_model.model_passes import ModelPasses
from marith.scoring.language_model.plain_runner import PlainRunner
from marith.scoring.language_model.runner import _by_segments, _by_slots, start_runner
from marith.scoring.notices import collecting
from marith.scoring.rotary.length_runner import LengthRunner
from marith.scoring.rotary.rotary_scaling import rotary_scaling

MAKERS: dict[str, Callable[[ModelPasses], Any]] = {
    "segments": partial(_by_segments, 0, CONTEXT, 2**24),
    "rectangle": partial(_by_slots, 0, 2**24),
    "states": LanewiseRunner,
    "states, token by token": partial(LanewiseRunner, pieces=False),
    "plain": lambda passes: PlainRunner(passes, CONTEXT),
}
EACH = max(3, settings().max_examples // 10)

model_of = cache(rotary_model)


def runner_of(model: Any, maker: str) -> LengthRunner:
    passes = ModelPasses(model, VOCAB)
    return LengthRunner(MAKERS[maker](passes), rotary_scaling(model.config))


def check(model: Any, runner: LengthRunner, *questions: Asked) -> list[Answer]:
    """Ask, and compare with the uncached model, which reads prefix by prefix."""
    answers = ask(runner, questions)
    for question, answer in zip(questions, answers, strict=True):
        want = uncached(model, question.tokens, question.count)
        torch.testing.assert_close(answer.logprobs, want, atol=CLOSE, rtol=0)
    return answers


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=EACH)
@given(script=rounds(longest_tail=40))
def test_any_sequence_of_questions_is_answered_by_prefixes(
    kind: str, maker: str, script: list[Round]
) -> None:
    model = model_of(kind)
    play(model, runner_of(model, maker), script)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_text_grows_across_the_limit_beside_others(kind: str, maker: str) -> None:
    model = model_of(kind)
    runner = runner_of(model, maker)
    for grown in range(12):
        tails = [text(60)[i : i + grown] for i in range(3)]
        starts = [text(length) for length in (LIMIT - 6, LIMIT + 3, 4)]
        asked = [Asked(i, tuple(starts[i]), continuation=tails[i]) for i in range(3)]
        check(model, runner, *asked)
        if grown == 5:
            runner.release(0)  # another turn goes on from what it held


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_chunks_of_a_long_prompt_are_read_as_part_of_it(kind: str, maker: str) -> None:
    limit, model = CHUNK + 30, rotary_model(kind, CHUNK + 30)
    runner = runner_of(model, maker)
    check(model, runner, Asked("long", text(2 * CHUNK + 50)), Asked("short", text(limit)))
    check(model, runner, Asked("across", [7, *text(limit + 2)], 5), Asked("short", text(9)))


@pytest.mark.parametrize("maker", ["segments", "rectangle"])
@pytest.mark.parametrize("kind", ["phi3 longrope", "llama longrope"])
def test_a_text_that_crosses_the_limit_is_read_anew_once(kind: str, maker: str) -> None:
    model = model_of(kind)
    runner, tokens = runner_of(model, maker), text(LIMIT + 10)
    for end in range(LIMIT - 5, LIMIT + 10):
        check(model, runner, Asked(0, tokens[:end]))
    assert runner.passes.tokens_read == LIMIT + (LIMIT + 9)


@pytest.mark.parametrize("maker", ["segments", "rectangle"])
@pytest.mark.parametrize("kind", ["phi3 longrope", "llama longrope"])
def test_drafts_taken_back_from_beyond_the_limit_cost_no_reading_anew(
    kind: str, maker: str
) -> None:
    model, start = model_of(kind), tuple(text(LIMIT - 2))
    runner = runner_of(model, maker)
    check(model, runner, Asked(0, start))
    check(model, runner, Asked(0, start, 5, continuation=[1, 2, 3, 4]))
    read = runner.passes.tokens_read
    check(model, runner, Asked(0, start, continuation=[1, 5]))
    assert runner.passes.tokens_read - read <= 3
    check(model, runner, Asked(0, start, 4, continuation=[1, 5, 6, 7, 8]))
    assert runner.passes.tokens_read - read <= 3 + 2 * 5 + 4


@pytest.mark.parametrize("kind", ["phi3 longrope", "llama longrope"])
def test_texts_that_cross_the_limit_hold_no_more_than_was_expected(kind: str) -> None:
    model = model_of(kind)
    runner, start = runner_of(model, "segments"), tuple(text(LIMIT - 3))
    check(model, runner, Asked(0, start))  # what a position weighs is known from here on
    expected = runner.memory([Planned(None, start, 12), Planned(None, start, 12)])
    check(model, runner, *(Asked(i, start, 9, continuation=[i, *text(11)]) for i in range(2)))
    assert 0 < runner.runner.lanes.nbytes <= expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_question_that_is_not_waited_for_leaves_nothing_behind(kind: str) -> None:
    model, start = model_of(kind), text(LIMIT - 2)
    runner = runner_of(model, "segments")
    assert runner.ask([Asked(0, [*start, 1, 2, 3, 4], 4)]) == [None]
    check(model, runner, Asked(0, [*start, 5, 6, 7, 8], 4))
    assert runner.ask([Asked(0, [*start, 1, 2, 3, 4], 4)]) == [None]
    runner.release(0)
    check(model, runner, Asked(0, [*start, 1, 2, 3, 4], 5))


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_model_is_cached_and_says_from_where_on_it_reads_anew(kind: str) -> None:
    model = model_of(kind)
    for captures in (None, True):
        with collecting() as said:
            runner = start_runner(model, VOCAB, CONTEXT, capture=captures)
        assert isinstance(runner, LengthRunner)
        assert isinstance(runner.runner, CachedRunner)
        assert runner.runner.captured is None
        expected = f"reads a text of more than {LIMIT} tokens anew with each token, and so slower"
        assert [expected in one for one in said] == [True] * (kind == "llama dynamic")
        check(model, runner, Asked(0, text(LIMIT + 5)), Asked(1, text(LIMIT)))


@pytest.mark.parametrize("kind", KINDS)
def test_within_the_limit_nothing_is_to_be_done(kind: str) -> None:
    with collecting() as said:
        runner = start_runner(model_of(kind), VOCAB, LIMIT)
    assert isinstance(runner, CachedRunner)
    assert not said
