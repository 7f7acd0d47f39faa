"""Models with states of their own: a pass for each lane, answered as without a cache."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from hypothesis import given, settings
from support.architectures import build
from support.runner_questions import CONTEXT, ask, span_of, text, uncached
from support.runner_rounds import Round, require_answers, rounds

from marith.scoring.choose_runner import start_runner
from marith.scoring.notices import collecting
from marith.scoring.passes.chunked_prefill import CHUNK
from marith.scoring.passes.passes import ModelPasses
from marith.scoring.passes.states.state_runner import StateRunner
from marith.scoring.passes.states.states import State, tensors

NAMES = ("mamba", "lfm2", "qwen3_next", "falcon_h1", "gpt_neo", "bloom")
EACH = max(3, settings().max_examples // 8)
ROOM = 2**30

model_of = cache(build)


def runner_of(name: str, most_bytes: int = ROOM) -> StateRunner:
    model = model_of(name)
    with collecting() as said:
        runner = start_runner(model, model.config.vocab_size, CONTEXT, most_bytes)
    assert isinstance(runner, StateRunner)
    assert not said
    return runner


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=EACH)
@given(script=rounds(longest_tail=25))
def test_any_sequence_of_questions_is_answered_as_without_a_cache(
    name: str, script: list[Round]
) -> None:
    require_answers(model_of(name), runner_of(name), script, close=1e-3)


@pytest.mark.parametrize("name", ["mamba", "lfm2"])
def test_a_token_costs_one_token_and_a_rejected_draft_is_read_from_the_state_before(
    name: str,
) -> None:
    passes = ModelPasses(model_of(name), model_of(name).config.vocab_size)
    runner = StateRunner(passes)
    prompt = tuple(text(60))
    ask(runner, [span_of("a", prompt)])
    passes.forget_counts()
    ask(runner, [span_of("a", prompt, 1, continuation=[3])])
    assert passes.tokens_read == 1
    ask(runner, [span_of("a", prompt, 3, continuation=[3, 4, 5, 6])])
    assert passes.tokens_read == 1 + 3
    [answer] = ask(runner, [span_of("a", prompt, 1, continuation=[3, 9])])
    assert passes.tokens_read == 4 + 1
    want = uncached(model_of(name), [*prompt, 3, 9])
    torch.testing.assert_close(answer.logprobs, want, atol=1e-4, rtol=0)


def test_drafts_after_a_rejected_one_take_one_pass_with_the_tokens_before() -> None:
    model, prompt = model_of("falcon_h1"), tuple(text(60))
    runner = runner_of("falcon_h1")
    ask(runner, [span_of("a", prompt)])
    ask(runner, [span_of("a", prompt, 3, continuation=[3, 4, 5])])
    for continuation in ([3, 4, 9, 1, 2], [3, 4, 9, 8, 2, 1, 6]):
        before = runner.passes.count
        [answer] = ask(runner, [span_of("a", prompt, 3, continuation=continuation)])
        assert runner.passes.count == before + 1
        want = uncached(model, [*prompt, *continuation], 3)
        torch.testing.assert_close(answer.logprobs, want, atol=1e-3, rtol=0)


@pytest.mark.parametrize("name", ["falcon_h1", "qwen3_next", "gpt_neo"])
def test_a_snapshot_shares_keys_and_is_not_changed_by_what_goes_on_from_it(name: str) -> None:
    runner, prompt = runner_of(name), tuple(text(60))
    ask(runner, [span_of("a", prompt)])
    [snapshot] = runner.states.idle
    begun = snapshot.copied()
    shared = {kept.data_ptr() for kept in tensors_of(snapshot)} & {
        kept.data_ptr() for kept in tensors_of(begun)
    }
    assert shared
    before = [kept.clone() for kept in tensors_of(snapshot)]
    for lane in range(3):
        ask(runner, [span_of(lane, prompt, 4, continuation=[lane, 1, 2, 3, 4])])
    for kept, want in zip(tensors_of(snapshot), before, strict=True):
        assert torch.equal(kept, want)


def tensors_of(state: State) -> list[torch.Tensor]:
    assert state.cache is not None
    return [one for layer in state.cache.layers for one in tensors(vars(layer)) if one.ndim]


def test_many_answers_to_one_prompt_read_it_once() -> None:
    runner, prompt = runner_of("lfm2"), tuple(text(80))
    for lane in range(5):
        [answer] = ask(runner, [span_of(lane, prompt)])
        assert answer.cached == (79 if lane else 0)
    assert runner.passes.tokens_read <= 80 + 5


@pytest.mark.parametrize("name", ["mamba2", "falcon_h1", "qwen3_next", "gpt_neo", "bloom"])
def test_a_long_text_is_read_in_chunks_between_the_tokens_of_others(name: str) -> None:
    runner, model, long = runner_of(name), model_of(name), text(500)
    short = text(5)
    ask(runner, [span_of("short", short)])
    answers = []
    while not answers or answers[-1] is None:
        before = runner.passes.tokens_read
        short = [*short, 7]
        answer, other = runner.ask([span_of("long", long), span_of("short", short)])
        assert other is not None
        torch.testing.assert_close(other.logprobs, uncached(model, short), atol=1e-3, rtol=0)
        assert runner.passes.tokens_read - before <= CHUNK + 1
        answers.append(answer)
    assert len(answers) == 2
    assert len(answer.passes) == 3  # two chunks, and the token whose logits are asked
    torch.testing.assert_close(answer.logprobs, uncached(model, long), atol=1e-3, rtol=0)
    [alone] = ask(runner_of(name), [span_of("long", long)])
    assert torch.equal(alone.logprobs, answer.logprobs)


def test_a_call_reads_one_chunk_while_other_texts_decode_and_more_while_none_does() -> None:
    model = model_of("mamba2")
    runner = start_runner(model, model.config.vocab_size, CONTEXT, ROOM, max_batched_tokens=2000)
    short, long = text(5), span_of("long", text(900))
    ask(runner, [span_of("short", short)])
    before = runner.passes.tokens_read
    assert runner.ask([long, span_of("short", short, continuation=[7])])[0] is None
    assert runner.passes.tokens_read - before == CHUNK + 1
    [answer] = runner.ask([long])
    assert runner.passes.tokens_read - before == 900 + 1
    assert len(answer.passes) == 5
    [alone] = ask(runner_of("mamba2"), [long])
    assert torch.equal(alone.logprobs, answer.logprobs)


def test_where_chunks_end_does_not_depend_on_who_else_asks() -> None:
    texts = [[lane, *text(350)] for lane in range(3)]
    runner = runner_of("falcon_h1")
    together = ask(runner, [span_of(lane, tokens) for lane, tokens in enumerate(texts)])
    for tokens, answer in zip(texts, together, strict=True):
        [alone] = ask(runner_of("falcon_h1"), [span_of("a", tokens)])
        assert torch.equal(alone.logprobs, answer.logprobs)


def test_a_long_text_that_several_lanes_wait_for_is_read_once() -> None:
    runner, prompt = runner_of("qwen3_next"), tuple(text(600))
    answers = ask(runner, [span_of(lane, prompt) for lane in range(4)])
    assert runner.passes.tokens_read == 600 + 3
    assert [answer.cached for answer in answers] == [0, 599, 599, 599]


def test_a_text_released_halfway_is_gone_on_with() -> None:
    runner, prompt = runner_of("mamba2"), text(600)
    assert runner.ask([span_of("a", prompt)]) == [None]
    runner.release("a")
    [answer] = ask(runner, [span_of("b", prompt)])
    assert answer.cached == CHUNK
    torch.testing.assert_close(
        answer.logprobs, uncached(model_of("mamba2"), prompt), atol=1e-3, rtol=0
    )


def test_a_model_that_cannot_go_on_in_pieces_reads_a_long_text_whole() -> None:
    runner, prompt = runner_of("mamba"), text(600)
    [answer] = runner.ask([span_of("a", prompt)])
    assert answer is not None
    assert runner.passes.count == 2


def test_a_second_turn_goes_on_from_the_first() -> None:
    runner, prompt = runner_of("qwen3_next"), tuple(text(40))
    ask(runner, [span_of("first", prompt)])
    ask(runner, [span_of("first", prompt, continuation=[7])])
    runner.release("first")
    [answer] = ask(runner, [span_of("second", (*prompt, 7, 8, 9))])
    assert answer.cached == 41


def test_idle_states_take_no_more_bytes_than_their_limit() -> None:
    runner = runner_of("mamba", most_bytes=200_000)
    for lane in range(30):
        ask(runner, [span_of(lane, [lane, *text(30)])])
        runner.release(lane)
        assert sum(state.nbytes for state in runner.states.idle) <= 200_000
    assert runner.states.idle
    runner = runner_of("mamba", most_bytes=0)
    ask(runner, [span_of("a", text(30))])
    runner.release("a")
    assert not runner.states.idle


def test_states_in_use_count_toward_the_limit() -> None:
    runner = runner_of("mamba")
    ask(runner, [span_of("a", text(30))])
    [state] = runner.states.idle
    room = 3 * state.nbytes
    runner = runner_of("mamba", most_bytes=room)
    for lane in range(3):
        ask(runner, [span_of(lane, [lane, *text(30)])])
        in_use = sum(held.nbytes for held in runner.states.held.values())
        assert in_use == (lane + 1) * state.nbytes
        assert len(runner.states.idle) <= 2 - lane
    for lane in range(3):
        runner.release(lane)
    assert len(runner.states.idle) == 3
