"""A classifier during a request: step by step it judges as it would judge a new text."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny_classifiers import (
    bert_scorer,
    pairing_tokenizer,
    scorer_of,
    span,
    term,
)
from transformers import GPTNeoConfig, GPTNeoForSequenceClassification

from marith.formula.tree.terms import Classifier
from marith.request.prompt import Prompt
from marith.scoring.passes.questions import Answer, Span
from marith.scoring.terms.classifier_scorer import ClassifierScorer
from marith.scoring.terms.tree_runner import TreeRunner
from marith.scoring.terms.whole_texts import WholeTextRunner
from marith.testing import tiny_classifier, tiny_tokenizer

CLOSE = 1e-5
CONTEXT = 24


def ask(scorer: ClassifierScorer, spans: Sequence[Span]) -> list[Answer]:
    """Ask those again that are still read."""
    told: dict[Hashable, Answer] = {}
    for _ in range(100):
        left = [one for one in spans if one.lane not in told]
        if not left:
            return [told[one.lane] for one in spans]
        answers = scorer.score(left)
        told |= {s.lane: a for s, a in zip(left, answers, strict=True) if a is not None}
    raise AssertionError("nothing was read any more")


def whole(scorer: ClassifierScorer, one: Span) -> torch.Tensor:
    """The same question to a scorer that reads every text from its first token on."""
    fresh = ClassifierScorer.__new__(ClassifierScorer)
    fresh.__dict__.update(scorer.__dict__)
    fresh.runner = WholeTextRunner(scorer.model, scorer.model.config.pad_token_id)
    encode: Any = scorer.checkpoint.vocabulary.encode
    plain: Any = lambda text, salt: encode(text, start=True)  # noqa: E731  # no Encoder
    fresh._encode = plain
    [answer] = fresh.score([one])
    assert answer is not None
    return answer.logprobs


letters = st.integers(2, 27)
candidates = st.lists(st.lists(letters, min_size=1, max_size=4, unique=True), min_size=1)
turns = st.lists(
    st.dictionaries(
        st.integers(0, 2),
        st.tuples(
            st.sampled_from(["", "b a d c ", "b a d c e f g h " * 9]),
            st.lists(letters, max_size=6),
            st.integers(0, 40),
            candidates.filter(lambda rows: len(rows) <= 3),
        ),
        min_size=1,
    ),
    min_size=1,
    max_size=4,
)
SCORERS: dict[str, Any] = {
    "whole words": (tiny_classifier, tiny_tokenizer, 128),
    "pairs of letters": (lambda: tiny_classifier(90), pairing_tokenizer, 128),
    "short context": (tiny_classifier, tiny_tokenizer, CONTEXT),
    "pairs in a short context": (lambda: tiny_classifier(90), pairing_tokenizer, 19),
}


@pytest.mark.parametrize("at_once", [5, None])
@pytest.mark.parametrize("name", SCORERS)
@settings(max_examples=settings().max_examples // 4)  # of each scorer
@given(turns=turns)
@pytest.mark.filterwarnings("ignore:the classifier 'judge' reads the last")
def test_any_sequence_of_questions_is_answered_as_by_whole_texts(
    name: str,
    at_once: int | None,
    turns: list[dict[int, tuple[str, list[int], int, list[list[int]]]]],
) -> None:
    model, tokenizer, context = SCORERS[name]
    scorer = scorer_of(model(), tokenizer(), context, at_once)
    for turn in turns:
        spans = [
            span([*range(2, 2 + more % 20), *tokens, *[3] * (len(rows) - 1)], rows, reading,
                 Classifier("m", label=lane % 2), lane)
            for lane, (reading, tokens, more, rows) in turn.items()
        ]  # fmt: skip
        for one, answer in zip(spans, ask(scorer, spans), strict=True):
            want = whole(scorer, one)
            torch.testing.assert_close(answer.logprobs, want, atol=CLOSE, rtol=CLOSE)
    for lane in range(3):
        scorer.release(lane)
    assert isinstance(scorer.runner, TreeRunner)
    assert scorer.runner.lanes.busy == 0


def test_a_request_costs_one_pass_a_token_and_few_tokens_a_pass() -> None:
    scorer = scorer_of(tiny_classifier(), tiny_tokenizer())
    passes = []
    for length in range(1, 20):
        [answer] = ask(scorer, [span([2 + i for i in range(length)], [list(range(2, 22))])])
        assert answer.judged == 20
        passes.append(len(answer.passes))
    assert passes == [1] * 19
    assert scorer.passes == 19


def test_two_labels_of_one_classifier_share_a_pass() -> None:
    scorer = scorer_of(tiny_classifier(), tiny_tokenizer())
    other = Classifier("m", label="no")
    first, second = ask(scorer, [span([2, 3], [[4]]), span([2, 3], [[4]], "", other, "other")])
    assert float(first.logprobs[0, 4]) * float(second.logprobs[0, 4]) < 0
    assert scorer.passes == 1
    assert isinstance(scorer.runner, TreeRunner)
    assert scorer.runner.lanes.busy == 1
    scorer.release("lane")
    [again] = ask(scorer, [span([2, 3, 4], [[5]], "", other, "other")])
    torch.testing.assert_close(again.logprobs, whole(scorer, span([2, 3, 4], [[5]], "", other)))


def test_a_long_prompt_is_read_while_others_are_answered() -> None:
    scorer = scorer_of(tiny_classifier(), tiny_tokenizer(), max_batched_tokens=32)
    reads = Classifier("m", label="yes", read_prompt=True)
    long = span([2], [[3, 4]], "a b c d e f g h " * 12, reads, "long")
    heard: list[bool] = []
    for length in range(1, 8):
        short, answer = scorer.score([span([2] * length, [[3, 4]]), long])
        assert short is not None
        heard.append(answer is not None)
        if answer is not None:
            break
    assert heard == [False, False, False, True]


def test_a_classifier_that_reads_both_ways_is_judged_in_whole_texts() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(bert_scorer().runner, WholeTextRunner)


def test_a_causal_classifier_that_cannot_roll_back_says_so_and_judges_whole_texts() -> None:
    config = GPTNeoConfig(
        vocab_size=28, hidden_size=32, num_layers=2, num_heads=4, window_size=8, pad_token_id=0,
        attention_types=[[["global", "local"], 1]], id2label={0: "no", 1: "yes"},
    )  # fmt: skip
    model = GPTNeoForSequenceClassification(config).eval()
    with pytest.warns(UserWarning, match="'judge' runs without a cache, .*layers of kind local"):
        scorer = scorer_of(model, tiny_tokenizer())
    assert isinstance(scorer.runner, WholeTextRunner)
    assert scorer.read(term, Prompt()) == ""
    [answer] = ask(scorer, [span([2] * 12, [[3, 4]])])
    torch.testing.assert_close(answer.logprobs, whole(scorer, span([2] * 12, [[3, 4]])))
