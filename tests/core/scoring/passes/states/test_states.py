"""States of several texts in one cache: one pass for a token of each, answered as without."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from support.architectures import build
from support.runner_questions import CONTEXT, ask, span_of, text, uncached

from marith.scoring.choose_runner import start_runner
from marith.scoring.passes.states.state_runner import StateRunner
from marith.scoring.passes.states.states import Joined, State, groups, tensors

NAMES = ("mamba", "mamba2", "falcon_h1", "qwen3_next", "lfm2", "gpt_neo")
LENGTHS = (70, 5, 33, 18)

model_of = cache(build)


def runner_of(name: str) -> StateRunner:
    runner = start_runner(model_of(name), model_of(name).config.vocab_size, CONTEXT)
    assert isinstance(runner, StateRunner)
    return runner


def begun(runner: StateRunner) -> list[list[int]]:
    """Texts of several lengths, which the runner has read."""
    runner._most_padding = 1e9  # as of a model that weighs more than this one
    texts = [[lane + 5, *(token + 5 for token in text(n))] for lane, n in enumerate(LENGTHS)]
    ask(runner, [span_of(lane, tokens) for lane, tokens in enumerate(texts)])
    return texts


def stepped(runner: StateRunner, texts: list[list[int]], token: int) -> int:
    """One token more for each text, compared; how many passes that took."""
    before = runner.passes.count
    for tokens in texts:
        tokens.append(token)
    answers = ask(runner, [span_of(lane, tokens) for lane, tokens in enumerate(texts)])
    for tokens, answer in zip(texts, answers, strict=True):
        want = uncached(runner.passes.model, tokens)
        torch.testing.assert_close(answer.logprobs, want, atol=1e-3, rtol=0)
    return runner.passes.count - before


@pytest.mark.parametrize("name", NAMES)
def test_texts_of_different_lengths_share_a_pass(name: str) -> None:
    runner = runner_of(name)
    texts = begun(runner)
    assert [stepped(runner, texts, token) for token in (7, 8, 9)] == [1, 1, 1]
    [joined] = {state.joined for state in runner.states.held.values()}
    assert joined is not None
    runner.release(1)
    del texts[1]
    texts.insert(1, [1, 2, 3])
    assert stepped(runner, texts, 4) == 1 + 1  # the new text by itself
    assert stepped(runner, texts, 5) == 1


def test_a_draft_of_one_text_goes_on_from_its_row() -> None:
    runner = runner_of("falcon_h1")
    texts = begun(runner)
    stepped(runner, texts, 7)
    [answer] = ask(runner, [span_of(2, [*texts[2], 1, 2, 3], 3)])
    want = uncached(runner.passes.model, [*texts[2], 1, 2, 3], 3)
    torch.testing.assert_close(answer.logprobs, want, atol=1e-3, rtol=0)
    assert stepped(runner, texts, 7) == 2  # what was drafted is rejected


def test_a_model_that_reads_padding_as_text_takes_a_pass_for_each() -> None:
    runner = runner_of("roberta")
    texts = begun(runner)
    assert stepped(runner, texts, 7) == len(texts)


def _fail(*_: object) -> None:
    raise MemoryError


def test_a_pass_that_fails_leaves_nothing_behind() -> None:
    model = build("mamba2")
    runner = StateRunner(start_runner(model, 258, CONTEXT).passes)
    texts = begun(runner)
    head = model.get_output_embeddings()
    hook = head.register_forward_pre_hook(_fail)
    with pytest.raises(MemoryError):
        runner.ask([span_of(lane, [*tokens, 1]) for lane, tokens in enumerate(texts)])
    hook.remove()
    assert not runner.states.held
    answers = ask(runner, [span_of(lane, [*tokens, 1]) for lane, tokens in enumerate(texts)])
    for answer, tokens in zip(answers, texts, strict=True):
        wanted = uncached(model, [*tokens, 1])
        torch.testing.assert_close(answer.logprobs, wanted, atol=1e-3, rtol=0)


def test_joined_states_have_the_same_bytes_and_are_the_same_when_split() -> None:
    runner = runner_of("qwen3_next")
    begun(runner)
    states = [runner.states.held[lane] for lane in range(len(LENGTHS))]
    before = [[one.clone() for one in contents(state)] for state in states]
    weight = sum(state.nbytes for state in states)
    joined = Joined(states)
    assert sum(state.nbytes for state in states) >= weight
    assert joined.longest == max(LENGTHS) + 1
    joined.split()
    assert sum(state.nbytes for state in states) == weight
    for state, want in zip(states, before, strict=True):
        assert all(map(torch.equal, contents(state), want))


def contents(state: State) -> list[torch.Tensor]:
    assert state.cache is not None
    return [one for layer in state.cache.layers for one in tensors(vars(layer))]


def test_states_that_cannot_be_joined_stay_as_they_are() -> None:
    first, second = runner_of("mamba"), runner_of("mamba2")
    begun(first)
    begun(second)
    states = [first.states.held[0], second.states.held[0]]
    caches = [state.cache for state in states]
    with pytest.raises(ValueError, match="differ"):
        Joined(states)
    assert [state.cache for state in states] == caches
    with pytest.raises(ValueError, match="a text has no state"):
        Joined([states[0], State(None, [])])


def test_padding_takes_no_more_bytes_than_its_limit() -> None:
    runner = runner_of("qwen3_next")
    begun(runner)
    states = [runner.states.held[lane] for lane in range(len(LENGTHS))]
    sizes = runner.passes.model.config
    heads = sizes.layer_types.count("full_attention") * sizes.num_key_value_heads
    each = 2 * heads * sizes.head_dim * 4  # keys and values of a token, in float32
    lengths = [[len(state.tokens) for state in group] for group in groups(states, 53 * each)]
    assert lengths == [[71, 34], [19, 6]]
    assert [len(group) for group in groups(states, 0)] == [1, 1, 1, 1]
    recurrent = runner_of("mamba2")
    begun(recurrent)
    assert len(groups([recurrent.states.held[lane] for lane in range(4)], 0)) == 1
