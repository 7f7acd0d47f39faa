"""How much of a prompt is read as tokens: no text that follows changes the firm tokens."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.byte_models import CORNERS, KINDS, START, hash_model

from marith.scoring.terms.over_bytes.canonical import Canonical
from marith.scoring.terms.over_bytes.sorted_tokens import SortedTokens

WORDS = (
    "the", " the", "cat", " c", "th", "  ", " ", "\n", "\n\n", "\t", " \t", "1", "12", "123", "é",
    "東", "京", "🎉", "'", "s", "t", "<think>", "<thi", "nk>", "</s>", "def that", "isn", "'t it?",
)  # fmt: skip
texts = st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=6).map("".join)


def firm_tokens(kind: str, prompt: str) -> tuple[list[int], int]:
    """Return the tokens of a prompt, and how many of them are firm."""
    vocabulary = hash_model(kind).vocabulary()
    tokens = vocabulary.encode(prompt, start=True)
    canonical = Canonical(vocabulary, SortedTokens(vocabulary))
    return tokens, canonical.firm(tokens, vocabulary.special_ids)


@pytest.mark.parametrize("kind", CORNERS.keys() - {"composed characters", "no bytes"})
@given(texts, texts)
@example("a \t", "the")
@example("the\n\n\n", "the")
@example("the  ", "cat")
@example("12", "3")
@example("   <thi", "nk>")
def test_no_continuation_changes_the_firm_tokens(kind: str, prompt: str, more: str) -> None:
    tokens, firm = firm_tokens(kind, prompt)
    assert 1 <= firm <= len(tokens)
    longer = hash_model(kind).vocabulary().encode(prompt + more, start=True)
    assert longer[:firm] == tokens[:firm]


@pytest.mark.parametrize("kind", KINDS)
def test_nearly_all_of_a_prompt_is_firm(kind: str) -> None:
    tokens, firm = firm_tokens(kind, "the cat sat on that mat. 12 12 the cat and then the th")
    assert firm < len(tokens)
    longest = max(map(len, hash_model(kind).data))
    tail = hash_model(kind).bytes_of(tokens[firm:])
    assert 0 < len(tail) <= longest + 4


@pytest.mark.parametrize("kind", CORNERS)
def test_a_prompt_that_ends_with_a_special_token_is_firm(kind: str) -> None:
    vocabulary = hash_model(kind).vocabulary()
    canonical = Canonical(vocabulary, SortedTokens(vocabulary))
    tokens = [*vocabulary.encode("the th"), START]
    assert canonical.firm(tokens, vocabulary.special_ids) == len(tokens)
    assert canonical.firm([START], vocabulary.special_ids) == 1
