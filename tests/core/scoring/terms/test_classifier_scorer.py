"""Classifiers that guide: the log-ratios that the model itself would give, text by text."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny_classifiers import (
    alone,
    bert_scorer,
    bert_tokenizer,
    llama_scorer,
    pairing_scorer,
    scorer_of,
    span,
    term,
    text_of,
    tiny_bert,
)

from marith.errors import RequestError
from marith.formula.tree.terms import Classifier
from marith.request.prompt import Prompt
from marith.scoring.terms import whole_texts
from marith.testing import tiny_classifier, tiny_tokenizer

CLOSE = 1e-5

letters = st.integers(2, 27)
candidate_rows = st.integers(1, 3).flatmap(
    lambda count: st.lists(
        st.lists(letters, min_size=1, max_size=5, unique=True), min_size=count, max_size=count
    )
)
asked_spans = st.tuples(st.lists(letters, min_size=3, max_size=8), candidate_rows)


@pytest.mark.parametrize(
    ("build", "column"), [(llama_scorer, 1), (pairing_scorer, 1), (bert_scorer, 2)]
)
@settings(max_examples=10)
@given(asked=asked_spans)
def test_ratios_are_the_models_own_and_zero_elsewhere(
    build: Any, column: int, asked: tuple[list[int], list[list[int]]]
) -> None:
    scorer, (continuation, rows) = build(), asked
    chosen = Classifier("some model", label=column)
    [scored] = scorer.score([span(continuation, rows, asked=chosen)])
    assert scored is not None
    assert scored.logprobs.shape == (len(rows), 28)
    assert scored.judged == sum(map(len, rows))
    for i, candidates in enumerate(rows):
        so_far = continuation[: len(continuation) - len(rows) + 1 + i]
        before = alone(scorer, text_of(so_far))[column]
        want = torch.zeros(28)
        for token in candidates:
            want[token] = alone(scorer, text_of([*so_far, token]))[column] - before
        torch.testing.assert_close(scored.logprobs[i], want, atol=CLOSE, rtol=CLOSE)


@settings(max_examples=10)
@given(several=st.lists(asked_spans, min_size=1, max_size=5))
@pytest.mark.parametrize("build", [llama_scorer, pairing_scorer, bert_scorer])
def test_spans_together_are_the_spans_one_by_one(
    build: Any, several: list[tuple[list[int], list[list[int]]]]
) -> None:
    scorer, chosen = build(), Classifier("some model", label=1)
    spans = [span(*asked, asked=chosen, lane=i) for i, asked in enumerate(several)]
    for one, together in zip(spans, scorer.score(spans), strict=True):
        single = scorer.score([one])[0].logprobs
        torch.testing.assert_close(together.logprobs, single, atol=CLOSE, rtol=CLOSE)


def test_small_batches_answer_as_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = bert_scorer()
    one = span([2, 3, 4], [[5, 6, 7], [8, 9, 10]], asked=Classifier("m", label=0))
    [want] = scorer.score([one])
    monkeypatch.setattr(whole_texts, "BATCH_TOKENS", 12)
    before = scorer.passes
    [got] = scorer.score([one])
    assert scorer.passes - before > 1
    assert len(got.passes) == scorer.passes - before
    torch.testing.assert_close(got.logprobs, want.logprobs, atol=CLOSE, rtol=CLOSE)


@pytest.mark.parametrize("label", ["yes", "YES", 1])
def test_a_label_goes_by_its_name_or_its_index(label: str | int) -> None:
    [named] = llama_scorer().score([span([2, 3], [[4, 5]])])
    asked = span([2, 3], [[4, 5]], asked=Classifier("some model", label=label))
    [got] = llama_scorer().score([asked])
    torch.testing.assert_close(got.logprobs, named.logprobs, atol=CLOSE, rtol=CLOSE)


@pytest.mark.parametrize("label", ["maybe", 2, -1])
def test_an_unknown_label_is_refused_with_the_labels_there_are(label: str | int) -> None:
    with pytest.raises(RequestError, match=r"no label .*no, yes") as caught:
        llama_scorer().read(Classifier("some model", label=label), Prompt())
    assert repr(label) in str(caught.value)


def test_the_prompt_is_read_where_the_term_asks_for_it() -> None:
    messages = ({"role": "user", "content": "a b "},)
    scorer = llama_scorer()
    assert scorer.read(term, Prompt(messages)) == ""
    reading = scorer.read(Classifier("some model", label=1, read_prompt=True), Prompt(messages))
    assert reading == "a b "
    [got] = scorer.score([span([4], [[5]], reading=str(reading))])
    want = alone(scorer, "a b c d")[1] - alone(scorer, "a b c")[1]
    assert float(got.logprobs[0, 5]) == pytest.approx(float(want), abs=CLOSE)


def test_an_empty_text_has_equal_class_probabilities() -> None:
    [got] = llama_scorer().score([span([], [[5, 6]])])
    for token in (5, 6):
        want = float(alone(llama_scorer(), text_of([token]))[1]) - math.log(0.5)
        assert float(got.logprobs[0, token]) == pytest.approx(want, abs=CLOSE)


def test_an_empty_text_between_markers_is_judged_by_the_model() -> None:
    scorer = bert_scorer()
    [got] = scorer.score([span([], [[5]], asked=Classifier("m", label=2))])
    want = float(alone(scorer, text_of([5]))[2] - alone(scorer, "")[2])
    assert float(got.logprobs[0, 5]) == pytest.approx(want, abs=CLOSE)


@pytest.mark.parametrize(("labels", "kind"), [(1, None), (3, "multi_label_classification")])
def test_multi_label_classifiers_are_judged_by_sigmoid(labels: int, kind: str | None) -> None:
    scorer = scorer_of(tiny_bert(labels, problem_type=kind), bert_tokenizer(), 40)
    [got] = scorer.score([span([2, 3], [[4, 9]], asked=Classifier("m", label=0))])
    for token in (4, 9):
        want = float(alone(scorer, text_of([2, 3, token]))[0] - alone(scorer, "a b")[0])
        assert float(got.logprobs[0, token]) == pytest.approx(want, abs=CLOSE)


@pytest.mark.parametrize("kind", ["one label", "three labels"])
def test_an_empty_text_has_probability_one_half_with_a_sigmoid(kind: str) -> None:
    labels = ("only",) if kind == "one label" else ("a", "b", "c")
    model = tiny_classifier(labels=labels)
    model.config.problem_type = None if len(labels) == 1 else "multi_label_classification"
    scorer = scorer_of(model, tiny_tokenizer())
    [got] = scorer.score([span([], [[5]], asked=Classifier("m", label=0))])
    want = float(alone(scorer, text_of([5]))[0]) - math.log(0.5)
    assert float(got.logprobs[0, 5]) == pytest.approx(want, abs=CLOSE)


def test_a_long_text_loses_its_oldest_part_and_this_is_said_once() -> None:
    scorer = scorer_of(tiny_bert(), bert_tokenizer(), 10)
    long = [2 + i % 26 for i in range(20)]
    asked = span(long, [[5]], asked=Classifier("m", label=1))
    with pytest.warns(UserWarning, match="reads the last 10 tokens of a text of 23") as said:
        [got] = scorer.score([asked])
    assert len(said) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scorer.score([asked])
    want = alone(scorer, text_of([*long[-7:], 5]))[1] - alone(scorer, text_of(long[-8:]))[1]
    assert float(got.logprobs[0, 5]) == pytest.approx(float(want), abs=CLOSE)


def test_a_long_text_without_markers_keeps_its_last_tokens() -> None:
    scorer = scorer_of(tiny_classifier(), tiny_tokenizer(), 6)
    long = [2 + i for i in range(12)]
    with pytest.warns(UserWarning, match="reads the last 6 tokens"):
        [got] = scorer.score([span(long, [[5]])])
    want = alone(scorer, text_of([*long[-5:], 5]))[1] - alone(scorer, text_of(long[-6:]))[1]
    assert float(got.logprobs[0, 5]) == pytest.approx(float(want), abs=CLOSE)


def test_a_classifier_without_a_padding_token_judges_as_with_one() -> None:
    model = tiny_classifier()
    model.config.pad_token_id = None
    [got] = scorer_of(model, tiny_tokenizer()).score([span([2, 3], [[4, 5]])])
    [want] = llama_scorer().score([span([2, 3], [[4, 5]])])
    torch.testing.assert_close(got.logprobs, want.logprobs, atol=CLOSE, rtol=CLOSE)
