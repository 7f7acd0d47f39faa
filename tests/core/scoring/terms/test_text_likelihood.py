"""How likely a text is to a model so far: the sum over its tokens, however it was asked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.reference import truncated
from support.runner_questions import VOCAB, LaneByName, uncached

from marith.formula.tree.terms import Likelihood, Prompted
from marith.request.prompt import Prompt
from marith.scoring.choose_runner import runner_of
from marith.scoring.passes import chunked_prefill
from marith.scoring.passes.questions import Answer, RequestLane, Span
from marith.scoring.terms.prompted_scorer import PromptedScorer
from marith.scoring.terms.text_likelihood import Histories
from marith.scoring.weights import loader
from marith.scoring.weights.loader import Placement
from marith.testing import tiny_model, tiny_tokenizer

OWN, EARLY = Likelihood(Prompted()), Likelihood(Prompted("b c", exit_layer=1))
READING = (2, 3, 4)

model = cache(tiny_model)
tokens, counts, asides = st.integers(0, VOCAB - 1), st.integers(1, 5), st.booleans()
Turn = dict[int, tuple[int, list[int], int, bool]]
turns = st.lists(
    st.dictionaries(
        st.integers(0, 2),
        st.tuples(st.integers(0, 20), st.lists(tokens, max_size=6), counts, asides),
        min_size=1,
    ),
    min_size=1,
    max_size=5,
)


def scorer_of(family: str, max_batched_tokens: int | None = None) -> PromptedScorer:
    checkpoint = loader.from_loaded(model(family), tiny_tokenizer(), Placement())
    return PromptedScorer(checkpoint, runner_of(checkpoint, max_batched_tokens=max_batched_tokens))


def score(scorer: PromptedScorer, spans: Sequence[Span]) -> list[Answer]:
    """Ask until all is answered; what is answered is not asked again."""
    answers: dict[int, Answer] = {}
    for _ in range(200):
        left = [i for i in range(len(spans)) if i not in answers]
        if not left:
            return [answers[i] for i in range(len(spans))]
        told = scorer.score([spans[i] for i in left])
        answers |= {i: one for i, one in zip(left, told, strict=True) if one is not None}
    raise AssertionError("the scorer answers nothing")


def likelihoods(spoken: Any, text: Sequence[int], count: int) -> list[float]:
    """The model's log-likelihood of a text after the prompt, before each of its last places."""
    sums = [0.0]
    if text:
        rows = uncached(spoken, [*READING, *text], len(text) + 1)
        for row, token in zip(rows, text, strict=False):
            sums.append(sums[-1] + float(row[token]))
    return sums[-count:]


def play(scorer: PromptedScorer, family: str, script: list[Turn]) -> None:
    """Ask of several lanes at once, roll back and go on, with the models' own words between."""
    texts: dict[int, list[int]] = {}
    lanes = {lane: RequestLane(READING, exits=(1,) if lane == 2 else ()) for lane in range(3)}
    for together in script:
        spans: list[Span] = []
        for lane, (kept, tail, count, beside) in together.items():
            texts[lane] = [*texts.get(lane, [])[:kept], *tail]
            own = min(count, len(texts[lane]) + 1)
            term = EARLY if lane == 2 else OWN
            spans.append(Span(term, lanes[lane], texts[lane], own))
            if beside:
                spans.append(Span(Prompted(), LaneByName(lane, READING), texts[lane], own))
        for span, answer in zip(spans, score(scorer, spans), strict=True):
            if isinstance(span.term, Likelihood):
                spoken = truncated(model(family), 1) if span.term is EARLY else model(family)
                want = likelihoods(spoken, span.continuation, span.count)
                assert answer.logprobs.shape == (span.count, 1)
                assert answer.logprobs[:, 0].tolist() == pytest.approx(want, abs=2e-3, rel=1e-4)
            else:
                want_ = uncached(model(family), [*READING, *span.continuation], span.count)
                torch.testing.assert_close(answer.logprobs, want_, atol=1e-4, rtol=0)
        for lane in together:
            if len(texts[lane]) % 4 == 1:
                scorer.release(lanes[lane])


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@settings(max_examples=10)
@given(script=turns)
def test_any_sequence_of_questions_is_answered_with_sums_of_log_probabilities(
    family: str, script: list[Turn]
) -> None:
    play(scorer_of(family), family, script)


@settings(max_examples=6)
@given(script=turns)
def test_texts_that_are_read_in_chunks_have_the_same_likelihood(script: list[Turn]) -> None:
    scorer = scorer_of("llama", max_batched_tokens=3)
    with pytest.MonkeyPatch.context() as patch:
        for name, size in (("FEW_TOKENS", 1), ("FREE_TOKENS", 1)):
            patch.setattr(chunked_prefill, name, size)
        play(scorer, "llama", script)


def test_one_more_token_costs_reading_one_token() -> None:
    scorer, lane, text = scorer_of("llama"), RequestLane(READING), [5, 9, 7, 3, 8]
    score(scorer, [Span(OWN, lane, text[:4])])
    read, passes = scorer.runner.passes.tokens_read, scorer.runner.passes.count
    [answer] = score(scorer, [Span(OWN, lane, text)])
    assert (scorer.runner.passes.tokens_read - read, scorer.runner.passes.count - passes) == (1, 1)
    assert answer.passes == {scorer.runner.passes.count}
    [again] = score(scorer, [Span(OWN, lane, text, 3)])
    assert scorer.runner.passes.count - passes == 1
    assert not again.passes
    torch.testing.assert_close(again.logprobs[-1:], answer.logprobs)


def test_an_empty_text_has_log_likelihood_zero_and_costs_no_pass() -> None:
    scorer = scorer_of("llama")
    [answer] = score(scorer, [Span(OWN, LaneByName(0, READING), [])])
    assert answer.logprobs.tolist() == [[0.0]]
    assert scorer.runner.passes.count == 0


def test_a_likelihood_reads_the_prompt_of_its_term() -> None:
    scorer, prompt = scorer_of("llama"), Prompt(({"role": "user", "content": "a b"},))
    for term in (Prompted(), Prompted("b c", mode="prepend")):
        assert scorer.read(Likelihood(term), prompt) == scorer.read(term, prompt)


def test_a_long_text_loses_nothing_to_rounding() -> None:
    """Sums are kept in double precision: thousands of tokens add up as their exact sum."""
    known, lane, text = Histories(), RequestLane(()), [0] * 5000
    row = torch.log_softmax(torch.tensor([0.3, 0.7]), dim=-1)
    for end in range(0, 5001, 500):
        missing = known.unknown(lane, text[:end])
        if missing:
            known.take(lane, text[:end], row.expand(missing, 2))
    assert float(known.logprobs(lane, 1)) == pytest.approx(5000 * float(row[0].double()), rel=1e-6)
