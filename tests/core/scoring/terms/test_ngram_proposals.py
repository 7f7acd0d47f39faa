"""Proposals of n-grams: the longest known context decides, and no proposal changes a score."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.runner_questions import opened

from marith.formula.tree.terms import NGram
from marith.request.prompt import to_prompt
from marith.scoring.passes.questions import Span
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.scorer import Proposal
from marith.scoring.terms.ngram_counts import DISCOUNT
from marith.scoring.terms.ngram_scorer import NGramScorer
from marith.testing import LETTERS, tiny_tokenizer

END, A, B, C, D = 1, 2, 3, 4, 5

texts = st.lists(
    st.lists(st.sampled_from("abc"), max_size=10).map(" ".join), min_size=1, max_size=3
)
tokens = st.lists(st.integers(1, 4), max_size=12)


def scorer(*terms: NGram) -> NGramScorer:
    """A scorer over `<start>`, `<end>` and the letters that has read `terms`."""
    made = NGramScorer(Vocabulary(tiny_tokenizer(), len(LETTERS) + 2))
    for term in terms:
        made.read(term, to_prompt("a"))
    return made


def followers(order: int, texts: list[list[int]], before: list[int]) -> tuple[int, list[int]]:
    """The length of the longest context that was seen, and what followed it, in order."""
    for length in range(min(order - 1, len(before)), 0, -1):
        context = before[len(before) - length :]
        seen = [
            text[i]
            for text in texts
            for i in range(length, len(text))
            if text[i - length : i] == context
        ]
        if seen:
            return length, seen
    return 0, []


def candidates(seen: list[int], newest: bool) -> tuple[int, float]:
    """The most frequent token, the newest or the smallest of several, and its confidence."""
    counts = Counter(seen)
    most = max(counts.values())
    tied = [t for t in (reversed(seen) if newest else sorted(seen)) if counts[t] == most]
    return tied[0], (most - DISCOUNT) / len(seen)


@given(
    order=st.integers(1, 5), given_=texts, reading=tokens, text=tokens, online=st.booleans(),
)  # fmt: skip
def test_a_proposal_is_the_most_frequent_continuation_of_the_longest_context(
    order: int, given_: list[str], reading: list[int], text: list[int], online: bool
) -> None:
    term = NGram(order=order, texts=tuple(given_), online=online)
    asked, before = scorer(term), [*reading, *text] if online else text
    lane = opened(asked, term, tuple(reading) if online else ())
    fitted = [[*asked.vocabulary.encode(each), END] for each in given_]
    known, seen = followers(order, fitted, before)
    own_length, own_seen = followers(order, [before] if online else [], before)
    choices = []
    if own_length and own_length >= known:
        choices.append(candidates(own_seen, newest=True))
    if known and known >= own_length:
        choices.append(candidates(seen, newest=False))
    guesses = asked.propose(Span(term, lane, text), 1)
    if not choices:
        assert guesses == []
    else:
        token, confidence = max(choices, key=lambda choice: choice[1])
        assert [guess.token for guess in guesses] == [token]
        assert guesses[0].confidence == pytest.approx(confidence)
        assert 0 < guesses[0].confidence < 1


@given(order=st.integers(1, 5), given_=texts, text=tokens, online=st.booleans())
def test_many_proposals_equal_one_proposal_at_a_time(
    order: int, given_: list[str], text: list[int], online: bool
) -> None:
    term = NGram(order=order, texts=tuple(given_), online=online)
    asked = scorer(term)
    together = asked.propose(Span(term, opened(asked, term, ()), text), 6)
    one_by_one: list[Proposal] = []
    lane = opened(asked, term, ())
    while len(one_by_one) < 6:
        so_far = [*text, *(guess.token for guess in one_by_one)]
        guess = asked.propose(Span(term, lane, so_far), 1)
        one_by_one += guess
        if not guess or guess[0].token == END:
            break
    assert together == one_by_one


@given(given_=texts, reading=tokens, text=tokens, other=tokens, most=st.integers(0, 6))
def test_proposals_do_not_change_scores(
    given_: list[str], reading: list[int], text: list[int], other: list[int], most: int
) -> None:
    term = NGram(order=4, texts=tuple(given_), online=True)
    guessing, silent = scorer(term), scorer(term)
    lanes = [opened(each, term, tuple(reading)) for each in (guessing, silent)]
    for continuation in (text, other, text[:2], text):
        guessed, scored = (Span(term, lane, continuation, len(continuation) + 1) for lane in lanes)
        assert len(guessing.propose(guessed, most)) <= most
        [got], [want] = guessing.score([guessed]), silent.score([scored])
        assert torch.equal(got.logprobs, want.logprobs)
