"""n-grams that count the request's own text: as if fitted anew, whatever drafts were refused."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.runner_questions import opened

from marith.errors import RequestError
from marith.formula.tree.terms import NGram, Prompted
from marith.request.prompt import to_prompt
from marith.scoring.passes.questions import RequestLane, Span
from marith.scoring.prompting.templates import to_tokens
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.terms.ngram_counts import NGramCounts
from marith.scoring.terms.ngram_scorer import NGramScorer
from marith.testing import tiny_tokenizer

WORDS = ("a", "b", "c")
SIZE = len(WORDS) + 2

tokens = st.integers(2, SIZE - 1)
texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), max_size=3)
readings = st.lists(tokens, max_size=12).map(tuple)


def vocabulary(words: Sequence[str] = WORDS) -> Vocabulary:
    return Vocabulary(tiny_tokenizer(words), len(words) + 2)


def anew(term: NGram, known: Vocabulary, before: list[int]) -> torch.Tensor:
    """The specification: everything is fitted from scratch, the text so far like any other."""
    fitted = [[*known.encode(text), min(known.eos_ids)] for text in term.texts]
    return NGramCounts(term.order, known.size, [*fitted, before]).logprobs(before)


@given(data=st.data(), order=st.integers(1, 5), given_=texts)
def test_what_is_counted_online_is_what_fitting_anew_would_count(
    data: st.DataObject, order: int, given_: list[str]
) -> None:
    """Lanes take turns, texts grow and are taken back, guesses come between."""
    known = vocabulary()
    term, scorer = NGram(order=order, texts=tuple(given_), online=True), NGramScorer(known)
    scorer.read(term, to_prompt("a"))
    lanes: dict[str, tuple[RequestLane, list[int]]] = {
        name: (opened(scorer, term, data.draw(readings)), []) for name in ("one", "other")
    }
    for _ in range(data.draw(st.integers(1, 6))):
        name = data.draw(st.sampled_from(sorted(lanes)))
        lane, kept = lanes[name]
        text = kept[: data.draw(st.integers(0, len(kept)))] + data.draw(
            st.lists(tokens, max_size=6)
        )
        lanes[name] = lane, text
        if data.draw(st.booleans()):
            scorer.propose(Span(term, lane, text), data.draw(st.integers(0, 4)))
        count = data.draw(st.integers(1, len(text) + 1))
        [answer] = scorer.score([Span(term, lane, text, count)])
        for row, end in zip(
            answer.logprobs, range(len(text) - count + 1, len(text) + 1), strict=True
        ):
            assert torch.equal(row, anew(term, known, [*lane.prompt, *text[:end]]))
            assert float(row.exp().sum()) == pytest.approx(1, abs=1e-5)


def test_an_online_term_reads_the_prompt_as_the_bare_model_does() -> None:
    known, messages = vocabulary(), to_prompt("a b c a")
    scorer = NGramScorer(known)
    bare = tuple(to_tokens(Prompted(), messages, known))
    assert scorer.read(NGram(order=3, online=True), messages) == bare
    assert scorer.read(NGram(order=3, texts=("a b",)), messages) == ()


def test_a_prompt_token_that_the_model_does_not_know_is_refused() -> None:
    narrow = NGramScorer(Vocabulary(tiny_tokenizer(WORDS), SIZE - 1))
    with pytest.raises(RequestError, match="token 4"):
        narrow.read(NGram(online=True), to_prompt("a c"))


def test_online_terms_of_different_orders_do_not_disturb_each_other() -> None:
    scorer = NGramScorer(vocabulary())
    terms = NGram(order=2, online=True), NGram(order=4, online=True)
    lanes = [opened(scorer, term, (2, 3, 4, 2)) for term in terms]
    for _ in range(2):
        for term, lane in zip(terms, lanes, strict=True):
            [alone] = NGramScorer(vocabulary()).score(
                [Span(term, opened(scorer, term, (2, 3, 4, 2)), [3])]
            )
            [beside] = scorer.score([Span(term, lane, [3])])
            assert torch.equal(beside.logprobs, alone.logprobs)
