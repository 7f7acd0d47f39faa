"""Prefixes: drawn evenly, batched without loss, and read between special tokens."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marith.scoring.prompting.tokenizer import Vocabulary
from marith.training.prefixes import (
    POOL,
    Batch,
    Prefix,
    SpecialTokens,
    drawn,
    grouped,
    special_tokens_of,
)

texts = st.lists(st.integers(1, 9).map(lambda size: list(range(size))), min_size=1, max_size=80)


@given(texts, st.integers(0, 1), st.integers(0, 3))
def test_every_chosen_example_is_drawn_once_and_no_further_than_it_goes(
    told: list[list[int]], shortest: int, epoch: int
) -> None:
    found = drawn(told, range(len(told)), shortest, 0, epoch)
    assert [prefix.example for prefix in found] == list(range(len(told)))
    assert all(shortest <= p.length <= len(told[p.example]) for p in found)
    assert drawn(told, range(len(told)), shortest, 0, epoch) == found


def test_lengths_are_uniform_and_change_from_epoch_to_epoch() -> None:
    told = [[0] * 4] * 500
    counts = Counter(p.length for e in range(4) for p in drawn(told, range(500), 1, 0, e))
    assert set(counts) == {1, 2, 3, 4}
    assert sum((count - 500) ** 2 / 500 for count in counts.values()) < 16.3  # chi², p = 0.001
    assert drawn(told, range(500), 1, 0, 0) != drawn(told, range(500), 1, 0, 1)


@given(texts, st.integers(1, 5))
def test_batches_hold_every_prefix_once_in_as_few_batches_as_can_be(
    told: list[list[int]], size: int
) -> None:
    prefixes = [Prefix(i, len(text)) for i, text in enumerate(told)]
    batches = grouped(prefixes, size, 0, 0)
    assert Counter(p for batch in batches for p in batch) == Counter(prefixes)
    assert len(batches) == -(-len(prefixes) // size)
    assert max(map(len, batches)) <= size


def test_batches_are_of_like_lengths() -> None:
    prefixes = [Prefix(i, i % 8 + 1) for i in range(8 * POOL)]
    batches = grouped(prefixes, 8, 0, 0)
    assert max(len({p.length for p in batch}) for batch in batches) == 1


def test_a_batch_is_padded_on_the_right() -> None:
    batch = Batch.of([[5, 6, 7], [8]], [1, 0], padding=9)
    assert batch.tokens.tolist() == [[5, 6, 7], [8, 9, 9]]
    assert batch.mask.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert batch.classes.tolist() == [1, 0]


@pytest.mark.parametrize("kind", ["marked", "bare"])
def test_a_whole_text_is_read_as_the_scorer_reads_it(
    kind: str, request: pytest.FixtureRequest
) -> None:
    tokenizer: Any = request.getfixturevalue(kind)
    vocabulary = Vocabulary(tokenizer, len(tokenizer))
    special_tokens = special_tokens_of(vocabulary, "the soup is lovely")
    assert special_tokens == (SpecialTokens((0,), (2,)) if kind == "marked" else SpecialTokens())
    assert special_tokens.shortest == (0 if kind == "marked" else 1)
    for text in ("her garden", "</s> spelt out", "today"):
        read = special_tokens.around(vocabulary.encode(text))
        assert list(read) == vocabulary.encode(text, start=True)
