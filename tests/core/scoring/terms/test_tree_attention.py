"""Texts judged as a prefix tree: the cache changes the cost, never the judgement."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import AutoModelForSequenceClassification, MistralConfig

from marith.errors import ModelError
from marith.scoring.passes import chunked_prefill
from marith.scoring.terms import prefix_tree, tree_runner
from marith.scoring.terms.tree_runner import TreeRunner
from marith.scoring.terms.whole_texts import Case, ClassLogits, Text, WholeTextRunner
from marith.testing import FAMILIES, tiny_model

CLOSE = 1e-5
CONTEXT = 128
PADDING = 27
LABELS = 3


def from_config(config: Any, **more: Any) -> Any:
    """A classifier with random weights, the same for the same configuration."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config.num_labels, config.pad_token_id = LABELS, PADDING
        model = AutoModelForSequenceClassification.from_config(config, **more).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 2:
                    parameter.normal_(std=0.3)
    return model


@cache
def classifier(family: str = "llama") -> Any:
    """In float64: in float32 the model's own answers are off by more than the bound here."""
    return from_config(tiny_model(family).config).double()


@cache
def judge_of(family: str, at_once: int = chunked_prefill.CHUNK) -> TreeRunner:
    return TreeRunner(classifier(family), PADDING, CONTEXT, 2**20, at_once=at_once)


def alone(text: Text, family: str = "llama") -> Tensor:
    """Log C of every label, from the model itself."""
    if not text:
        return torch.full((LABELS,), 1 / LABELS).log()
    with torch.inference_mode():
        logits = classifier(family)(input_ids=torch.tensor([text])).logits[0]
    return torch.log_softmax(logits, dim=-1)


def all_answers(runner: TreeRunner, cases: Sequence[Case]) -> list[ClassLogits]:
    """Ask those again that are still read, which each call brings nearer."""
    told: dict[int, ClassLogits] = {}
    for _ in range(200):
        open_ = [i for i in range(len(cases)) if i not in told]
        got = runner.classify([cases[i] for i in open_])
        told |= {i: answer for i, answer in zip(open_, got, strict=True) if answer is not None}
        if len(told) == len(cases):
            return [told[i] for i in range(len(cases))]
    raise AssertionError("nothing was read any more")


def agree(runner: TreeRunner, cases: Sequence[Case], family: str = "llama") -> None:
    for case, answer in zip(cases, all_answers(runner, cases), strict=True):
        want = torch.stack([alone(text, family) for text in case.texts])
        told = torch.log_softmax(answer.logits.double(), dim=-1)
        torch.testing.assert_close(told, want.double(), atol=CLOSE, rtol=CLOSE)


few = st.integers(2, 4)  # so few tokens that texts often begin alike
words = st.lists(few, max_size=30).map(tuple)
ends = st.lists(few | st.just(PADDING), max_size=4).map(tuple)


@st.composite
def texts_on_a_trunk(draw: st.DrawFn) -> tuple[Text, ...]:
    root: Text = draw(words)
    cuts = st.tuples(st.integers(0, len(root)), ends)
    near = [root[:at] + suffix for at, suffix in draw(st.lists(cuts, max_size=12))]
    return (*near, *draw(st.lists(words, max_size=2)), root)


calls = st.lists(
    st.tuples(
        st.dictionaries(st.integers(0, 3), texts_on_a_trunk(), min_size=1),
        st.sets(st.integers(0, 3)),
    ),
    min_size=1,
    max_size=6,
)
patient = settings(
    max_examples=settings().max_examples // 3,  # of each family
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.parametrize("family", FAMILIES)
@patient
@given(calls=calls)
def test_any_sequence_of_questions_is_answered_as_by_the_model_alone(
    family: str, calls: list[tuple[dict[int, tuple[Text, ...]], set[int]]]
) -> None:
    runner = judge_of(family)
    for asked, released in calls:
        agree(runner, [Case(lane, texts) for lane, texts in asked.items()], family)
        for lane in released:
            runner.release(lane)
    for lane in range(4):
        runner.release(lane)
    assert runner.lanes.busy == 0


@patient
@given(calls=calls)
def test_small_trees_and_chunks_give_the_same_answers(
    monkeypatch: pytest.MonkeyPatch, calls: list[tuple[dict[int, tuple[Text, ...]], set[int]]]
) -> None:
    runner = judge_of("llama", 5)
    monkeypatch.setattr(prefix_tree, "ROOM", 3)
    monkeypatch.setattr(tree_runner, "BATCH_TOKENS", 12)
    for name, value in (("FEW_TOKENS", 1), ("FREE_TOKENS", 2)):
        monkeypatch.setattr(chunked_prefill, name, value)
    for asked, released in calls:
        agree(runner, [Case(lane, texts) for lane, texts in asked.items()])
        for lane in released:
            runner.release(lane)


def test_a_text_that_goes_on_costs_its_new_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    runner, widths = TreeRunner(classifier(), PADDING, CONTEXT, 2**20), []
    run = runner._pass

    def watched(rows: list[Any]) -> Tensor:
        widths.append([row.width for row in rows])
        return run(rows)

    monkeypatch.setattr(runner, "_pass", watched)
    for length in (10, 11, 12):
        root = tuple(range(2, 2 + length))
        agree(runner, [Case("a", [*((*root, token) for token in range(2, 7)), root])])
    assert widths == [[10 + 5], [1 + 5], [1 + 5]]
    assert runner.passes == 3


def test_all_cases_share_a_pass_and_a_long_trunk_does_not_stall_the_others() -> None:
    runner = TreeRunner(classifier(), PADDING, 1024, 2**24)
    long = tuple(2 + i % 20 for i in range(3 * chunked_prefill.CHUNK))
    short = [Case(i, [(i + 2, 9), (i + 2,)]) for i in range(3)]
    answers = [runner.classify([*short, Case("long", [(*long, 5), long])]) for _ in range(3)]
    assert [answer[3] is None for answer in answers] == [True, True, False]
    assert all(answer is not None for got in answers for answer in got[:3])
    assert runner.passes <= 2 * 3
    first, second = answers[0][:2]
    assert first is not None
    assert second is not None
    assert len(first.passes) == 1
    assert first.passes == second.passes
    last = answers[2][3]
    assert last is not None
    assert len(last.passes) == 3


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_either_kind_of_attention_mask_is_understood(attention: str) -> None:
    model = from_config(tiny_model("llama").config, attn_implementation=attention)
    agree(TreeRunner(model, PADDING, CONTEXT, 2**20), [Case(0, [(2, 3, 9), (2, 5), (2, 3)])])


def test_a_head_is_read_in_half_precision_as_the_model_reads_it() -> None:
    model = from_config(tiny_model("llama").config).to(torch.bfloat16)
    runner, whole = TreeRunner(model, PADDING, CONTEXT, 2**20), WholeTextRunner(model, PADDING)
    cases = [Case(0, [(2, 3, 9), (2, 3)])]
    got, want = runner.classify(cases)[0], whole.classify(cases)[0]
    assert got is not None
    assert got.logits.dtype == want.logits.dtype == torch.float32
    torch.testing.assert_close(got.logits, want.logits, atol=0.2, rtol=0.1)


@pytest.mark.parametrize("window", [3, 8])
def test_a_tree_sees_through_a_window_what_each_of_its_texts_sees(window: int) -> None:
    sizes = {k: getattr(tiny_model("llama").config, k) for k in ("hidden_size", "vocab_size")}
    config = MistralConfig(
        **sizes, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, sliding_window=window, max_position_embeddings=CONTEXT,
    )  # fmt: skip
    model = from_config(config)
    runner, whole = TreeRunner(model, PADDING, CONTEXT, 2**20), WholeTextRunner(model, PADDING)
    root = tuple(range(2, 16))
    ends = [(3,), (3, 5), (3, 5, 7, 9), (4, 4, 4)]
    cases = [Case(0, [root, *(root + end for end in ends), *(root[:6] + end for end in ends)])]
    [got], [want] = runner.classify(cases), whole.classify(cases)
    assert got is not None
    assert want is not None
    torch.testing.assert_close(got.logits, want.logits, atol=CLOSE, rtol=0)


def test_nan_is_an_error_and_leaves_nothing_in_the_cache() -> None:
    runner = TreeRunner(from_config(tiny_model("llama").config), PADDING, CONTEXT, 2**20)
    cases = [Case(0, [(2, 3, 9), (2, 3)])]
    weights = runner.model.score.weight
    with torch.no_grad():
        kept = weights.clone()
        weights.fill_(torch.nan)
    for way in (runner, WholeTextRunner(runner.model, PADDING)):
        with pytest.raises(ModelError, match=r"damaged: .* 'score\.weight'"):
            way.classify(cases)
    assert not list(runner.lanes)
    with torch.no_grad():
        weights.copy_(kept)
    agree(runner, cases)
