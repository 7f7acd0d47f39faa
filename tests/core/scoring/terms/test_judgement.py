"""The probability of a class for a text so far, and the scales on which it is compared."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.runner_questions import LaneByName
from support.tiny_classifiers import (
    alone,
    bert_scorer,
    bert_tokenizer,
    llama_scorer,
    pairing_scorer,
    scorer_of,
    span,
    text_of,
    tiny_bert,
)

from marith.errors import RequestError
from marith.formula.tree.signals import judgement_of
from marith.formula.tree.terms import Classifier, Judgement
from marith.request.prompt import Prompt
from marith.scoring.passes.questions import Answer, Span
from marith.scoring.terms.classifier_scorer import ClassifierScorer
from marith.testing import tiny_classifier, tiny_tokenizer

CLOSE = 1e-5
NO, YES = Judgement("some model", label=0), Judgement("some model", label="yes")
letters = st.lists(st.integers(2, 27), max_size=7)
questions = st.tuples(letters, st.integers(1, 4))
SCORERS = [(llama_scorer, 1), (pairing_scorer, 1), (bert_scorer, 2)]


def judged(
    asked: Judgement, text: Sequence[int], count: int = 1, lane: Hashable = 0, reading: str = ""
) -> Span:
    return Span(asked, LaneByName(lane, reading), text, min(count, len(text) + 1))


def told(answers: Sequence[Answer | None]) -> list[Answer]:
    assert all(answer is not None for answer in answers)
    return [answer for answer in answers if answer is not None]


def so_far(scorer: ClassifierScorer, one: Span, label: int) -> list[float]:
    """log C of each text so far, by the model itself; even where there is no text."""
    ends = range(len(one.continuation) - one.count + 1, len(one.continuation) + 1)
    said = []
    for end in ends:
        text = f"{one.lane.reading}{text_of(one.continuation[:end])}"
        known = scorer.checkpoint.vocabulary.encode(text, start=True)
        rows = alone(scorer, text) if known else -torch.log(torch.full((2,), 2.0))
        said.append(float(rows[label]))
    return said


@pytest.mark.parametrize(("build", "column"), SCORERS)
@settings(max_examples=12)
@given(asked=st.lists(questions, min_size=1, max_size=3))
def test_a_judgement_is_the_log_probability_of_the_class(
    build: Callable[[], ClassifierScorer], column: int, asked: list[tuple[list[int], int]]
) -> None:
    """At each place, alone and with others, and beside the same classifier as a term."""
    scorer, term = build(), Judgement("some model", label=column)
    spans = [judged(term, text, count, i) for i, (text, count) in enumerate(asked)]
    beside = span([2, 3], [[4, 5]], asked=Classifier("some model", label=column), lane="term")
    together = told(scorer.score([*spans, beside]))[:-1]
    for one, answer in zip(spans, together, strict=True):
        assert answer.logprobs.shape == (one.count, 1)
        assert answer.judged == 0
        want = so_far(scorer, one, column)
        assert answer.logprobs[:, 0].tolist() == pytest.approx(want, abs=CLOSE, rel=CLOSE)
        [single] = told(scorer.score([one]))
        torch.testing.assert_close(single.logprobs, answer.logprobs, atol=CLOSE, rtol=CLOSE)


def test_class_prob_uses_the_label_of_its_classifier() -> None:
    runner = Classifier("m", label="joy", candidates=3, read_prompt=True, scale="logit")
    assert judgement_of(runner) == Judgement("m", "joy", True)
    with pytest.raises(RequestError, match="no label 'joy'; it has no, yes"):
        llama_scorer().read(judgement_of(runner), Prompt())


def logits(scorer: ClassifierScorer, tokens: Sequence[int]) -> Any:
    ids = scorer.checkpoint.vocabulary.encode(text_of(tokens), start=True)
    with torch.inference_mode():
        return scorer.model(input_ids=torch.tensor([ids])).logits[0]


def one_label() -> ClassifierScorer:
    """A reward model: one number a text."""
    return scorer_of(tiny_bert(labels=1), bert_tokenizer(), 40)


@pytest.mark.parametrize(("build", "column"), [*SCORERS, (one_label, 0)])
@settings(max_examples=8)
@given(text=st.lists(st.integers(2, 27), min_size=1, max_size=6))
def test_a_scale_decides_which_value_is_compared(
    build: Callable[[], ClassifierScorer], column: int, text: list[int]
) -> None:
    scorer, candidates = build(), [4, 17, 9]
    after = [[*text, token] for token in candidates]
    said: dict[str, Callable[[Sequence[int]], float]] = {
        "log": lambda tokens: float(alone(scorer, text_of(tokens))[column]),
        "probability": lambda tokens: float(alone(scorer, text_of(tokens))[column].exp()),
        "logit": lambda tokens: float(logits(scorer, tokens)[column]),
    }
    terms: list[Any] = [Classifier("m", column, scale=scale) for scale in said]  # type: ignore[arg-type]
    spans = [span(text, [candidates], asked=term, lane=term.scale) for term in terms]
    for (scale, value), answer in zip(said.items(), told(scorer.score(spans)), strict=True):
        want = [value(tokens) - value(text) for tokens in after]
        got = answer.logprobs[0, candidates].tolist()
        assert got == pytest.approx(want, abs=CLOSE, rel=1e-4), scale
        others = [token for token in range(28) if token not in candidates]
        assert not bool(answer.logprobs[0, others].any())


def test_scales_of_one_classifier_share_a_pass() -> None:
    scorer = scorer_of(tiny_classifier(), tiny_tokenizer())
    terms = [Classifier("m", scale="log"), Classifier("m", scale="logit")]
    scorer.score([span([2, 3], [[4, 5]], asked=term, lane=term.scale) for term in terms])
    assert scorer.passes == 1


@pytest.mark.parametrize("scale", ["log", "probability", "logit"])
def test_whole_texts_are_judged_by_probability_whatever_the_scale(scale: Any) -> None:
    scorer, texts = llama_scorer(), ["a b", "c d e"]
    told_ = scorer.probabilities(Classifier("m", label=1, scale=scale), texts)
    assert told_ == pytest.approx([float(alone(scorer, text)[1].exp()) for text in texts])
