"""Which tokens are text over bytes, and which bytes they have."""

from __future__ import annotations

import pytest
from support.byte_models import CORNERS, hash_model
from support.chat_families import speaker

from marith.scoring.terms.over_bytes.sorted_tokens import SortedTokens


@pytest.mark.parametrize("kind", CORNERS)
def test_every_token_that_is_not_special_is_text(kind: str) -> None:
    model = hash_model(kind)
    tokens = SortedTokens(model.vocabulary())
    assert tokens.bytes_of_token == model.data
    assert tokens.sorted_bytes == sorted(filter(None, model.data))
    assert [model.data[token] for token in tokens.ids] == tokens.sorted_bytes
    assert not tokens.marks


def test_special_tokens_are_text_only_if_they_mark_reasoning_or_calls() -> None:
    known = speaker("thinking special")
    tokens = SortedTokens(known)
    marks = {tokens.bytes_of_token[token] for token in tokens.marks}
    assert marks == {b"<think>", b"</think>"}
    assert {*known.special_ids} - tokens.marks
    for token in {*known.special_ids} - tokens.marks:
        assert tokens.bytes_of_token[token] == b""


def test_a_token_goes_beyond_bytes_if_it_begins_with_them_and_is_longer() -> None:
    model = hash_model("byte level")
    tokens = SortedTokens(model.vocabulary())
    for data in (b"t", b"th", b"the", b" the", b"thex", b"\n\n", b"\xc3", b"\xff"):
        longer = [text for text in model.data if text.startswith(data) and text != data]
        assert tokens.goes_beyond(data) == bool(longer)
