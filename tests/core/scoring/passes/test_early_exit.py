"""Early exits: the log-probabilities of the truncated model, without another pass."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.reference import truncated
from support.runner_questions import (
    CLOSE,
    CONTEXT,
    VOCAB,
    LaneByName,
    ask,
    runner_of,
    span_of,
    text,
    uncached,
)
from torch import Tensor
from transformers import GraniteConfig, GraniteForCausalLM, MistralConfig, MistralForCausalLM

from marith.errors import ModelError, RequestError
from marith.formula.tree.terms import Prompted
from marith.request.prompt import Prompt
from marith.scoring import choose_runner
from marith.scoring.passes.early_exit import Exits
from marith.scoring.passes.passes import ModelPasses
from marith.scoring.passes.plain_runner import PlainRunner
from marith.scoring.passes.questions import Answer, Span
from marith.scoring.terms.prompted_scorer import PromptedScorer
from marith.scoring.weights import loader
from marith.scoring.weights.loader import Placement
from marith.tensor_rows import gather
from marith.testing import tiny_model, tiny_tokenizer

LAYERS = 4
SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": VOCAB,
    "max_position_embeddings": CONTEXT,
}
families = pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neox"])


@cache
def deep(family: str) -> Any:
    """A model of four layers, which each change what is said."""
    like = tiny_model(family)
    config = copy.deepcopy(like.config)
    config.num_hidden_layers = LAYERS
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        model = type(like)(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 2:
                    parameter.normal_(std=0.3)
    return model


def scorer_of(family: str) -> PromptedScorer:
    checkpoint = loader.from_loaded(deep(family), tiny_tokenizer(), Placement())
    return PromptedScorer(checkpoint, choose_runner.runner_of(checkpoint))


def span(layer: int | None, lane: int, tokens: Sequence[int], count: int = 1) -> Span:
    """A span whose prompt is the first token."""
    own = LaneByName(lane, (tokens[0],), None, None, tuple(range(LAYERS)))
    return Span(Prompted(exit_layer=layer), own, tokens[1:], count)


def said(family: str, layer: int | None, tokens: Sequence[int], count: int) -> Tensor:
    model = deep(family)
    return uncached(model if layer is None else truncated(model, layer), tokens, count)


def told(answers: Sequence[Answer | None]) -> list[Tensor]:
    """What has been said, all at once: these texts are short."""
    assert all(answer is not None for answer in answers)
    return [answer.logprobs for answer in answers if answer is not None]


layers = st.none() | st.integers(0, LAYERS - 1)
several = st.dictionaries(layers, st.integers(1, 4), min_size=1, max_size=3)
questions = st.lists(
    st.dictionaries(
        st.integers(0, 3),
        st.tuples(st.integers(0, 12), st.lists(st.integers(0, VOCAB - 1), max_size=6), several),
        min_size=1,
        max_size=3,
    ),
    min_size=1,
    max_size=4,
)


@families
@settings(max_examples=6)
@given(script=questions)
def test_an_early_exit_equals_the_truncated_model(
    family: str, script: list[dict[int, tuple[int, list[int], dict[int | None, int]]]]
) -> None:
    """Cached, rolled back, batched with others, and beside the whole model."""
    scorer, texts = scorer_of(family), dict[int, list[int]]()
    for together in script:
        spans: list[Span] = []
        for lane, (kept, tail, asked) in together.items():
            texts[lane] = [3 + lane, *texts.get(lane, [])[1:kept], *tail]
            longest = len(texts[lane])
            spans += [span(k, lane, texts[lane], min(n, longest)) for k, n in asked.items()]
        for one, got in zip(spans, told(scorer.score(spans)), strict=True):
            assert isinstance(one.term, Prompted)
            tokens = [*map(int, one.lane.prompt), *one.continuation]
            want = said(family, one.term.exit_layer, tokens, one.count)
            torch.testing.assert_close(got, want, atol=CLOSE, rtol=0)
        for lane in together:
            if len(texts[lane]) % 3 == 0:
                scorer.release(lane)


def test_beside_the_whole_model_exits_cost_no_row_and_no_token_more() -> None:
    beside, alone = scorer_of("llama"), scorer_of("llama")
    for end in range(6, 12):
        tokens = text(end)
        beside.score([span(None, 0, tokens), *(span(k, 0, tokens) for k in range(LAYERS))])
        alone.score([span(None, 0, tokens)])
        mine, other = beside.runner, alone.runner
        assert mine.passes.count == other.passes.count
        assert mine.passes.tokens_read == other.passes.tokens_read
        assert mine.lanes.busy == other.lanes.busy == 1
    assert beside.runner.passes.count == 6


def test_an_early_exit_uses_the_cached_prefix_of_the_model() -> None:
    scorer = scorer_of("llama")
    before = scorer.runner.passes.tokens_read
    told(scorer.score([span(None, 0, text(15))]))
    [late] = scorer.score([span(2, 0, text(16))])
    assert late is not None
    assert scorer.runner.passes.tokens_read - before == 16
    assert late.passes == {2}


def test_early_exits_of_a_long_text_come_after_its_last_chunk() -> None:
    runner = runner_of(deep("llama"))
    tokens = [1 + i % 20 for i in range(110)]
    [first, _] = ask(runner, [span_of("a", tokens, 3, exits=(1, 3)), span_of("b", tokens[:9])])
    for layer in (1, 3):
        want = said("llama", layer, tokens, 3)
        torch.testing.assert_close(gather(first.exits[layer]), want, atol=CLOSE, rtol=0)


def test_a_layer_that_does_not_exist_is_refused_before_anything_runs() -> None:
    scorer = scorer_of("gpt2")
    assert scorer.read(Prompted(exit_layer=3), Prompt(({"role": "user", "content": "a b"},)))
    for layer in (4, 99):
        with pytest.raises(RequestError, match=f"exit_layer={layer} is not .* below 4"):
            scorer.load(Prompted(exit_layer=layer))
    assert scorer.runner.passes.count == 0


def scaled() -> Any:
    return GraniteForCausalLM(GraniteConfig(**SMALL, logits_scaling=8.0))


def test_a_model_without_a_plain_norm_and_head_is_refused_by_its_name() -> None:
    model = scaled().eval()
    checkpoint = loader.from_loaded(model, tiny_tokenizer(), Placement())
    scorer = PromptedScorer(checkpoint, choose_runner.runner_of(checkpoint))
    with pytest.raises(ModelError, match="ends in a norm and a head; GraniteForCausalLM does not"):
        scorer.load(Prompted(exit_layer=1))
    scorer.read(Prompted(), Prompt(({"role": "user", "content": "a"},)))


def test_other_threads_may_run_a_model_while_its_head_is_examined() -> None:
    model, calls = deep("llama"), 0

    def another(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:  # within the pass that looks, and on other tokens
            model(input_ids=torch.tensor([[5, 6, 7]]), use_cache=False)

    hook = model.lm_head.register_forward_hook(another)
    try:
        assert Exits(model).layers == LAYERS
    finally:
        hook.remove()
    assert calls > 1


def test_early_exits_work_without_a_cache() -> None:
    torch.manual_seed(0)
    model = MistralForCausalLM(MistralConfig(**SMALL, sliding_window=6)).eval()
    runner = PlainRunner(ModelPasses(model, VOCAB), CONTEXT)
    tokens = text(17)
    [answer] = runner.ask([span_of(0, tokens, 2, exits=(0, 1))])
    assert answer is not None
    for layer in (0, 1):
        want = uncached(truncated(model, layer), tokens, 2)
        torch.testing.assert_close(gather(answer.exits[layer]), want, atol=CLOSE, rtol=0)
