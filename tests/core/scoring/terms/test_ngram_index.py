"""Tokens that followed a context: in a text that grows or is replaced, and in separate texts."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from marith.scoring.terms.ngram_index import Corpus, GrowingText

tokens = st.integers(2, 4)
readings = st.lists(tokens, max_size=12).map(tuple)


@given(depth=st.integers(0, 5), history=st.lists(st.tuples(readings, readings), min_size=2))
def test_a_text_that_replaced_another_equals_a_new_text(
    depth: int, history: list[tuple[tuple[int, ...], tuple[int, ...]]]
) -> None:
    grown, fresh = GrowingText(depth), GrowingText(depth)
    for reading, continuation in history:
        grown.become(reading, continuation)
    fresh.become(*history[-1])
    assert grown.text == fresh.text == [*history[-1][0], *history[-1][1]]
    for token in (2, 3, 4, 2):
        assert grown.contexts() == fresh.contexts()
        grown.add(token)
        fresh.add(token)


@given(
    depth=st.integers(0, 5),
    text=st.lists(tokens, min_size=1, max_size=20),
    before=st.lists(tokens, max_size=6),
)
def test_a_text_given_and_a_text_grown_have_the_same_contexts_and_counts(
    depth: int, text: list[int], before: list[int]
) -> None:
    grown = GrowingText(depth)
    grown.become((), text + before)
    corpus = Corpus(depth, [text + before])
    counted = [corpus.counted(places) for places in corpus.contexts(text + before)]
    counts = [dict(zip(*each, strict=True)) for each in counted]
    assert [dict(Counter(followers)) for followers in grown.contexts()] == counts


def test_without_a_text_no_context_is_known() -> None:
    assert Corpus(3, []).contexts([2]) == Corpus(3, [[], []]).contexts([2]) == []
    assert GrowingText(3).contexts() == []
