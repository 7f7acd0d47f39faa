"""How much of a prompt is read as tokens: no text that follows changes the firm tokens."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from support.byte_models import CORNERS, KINDS, START, hash_model
from support.covered_texts import sorted_tokens

from marith.scoring.terms.over_bytes.canonical_tokens import CanonicalTokens
from marith.scoring.terms.over_bytes.covers import CoveredText
from marith.scoring.terms.over_bytes.firm_prompt import PromptSplitter
from marith.scoring.terms.over_bytes.sorted_tokens import SortedTokens

WORDS = (
    "the", " the", "cat", " c", "th", "  ", " ", "\n", "\n\n", "\t", " \t", "1", "12", "123", "é",
    "東", "京", "🎉", "'", "s", "t", "<think>", "<thi", "nk>", "</s>", "def that", "isn", "'t it?",
)  # fmt: skip
texts = st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=6).map("".join)


@cache
def splitter(kind: str) -> PromptSplitter:
    return PromptSplitter(hash_model(kind).vocabulary(), *sorted_tokens(kind))


def firm_tokens(kind: str, prompt: str) -> tuple[list[int], int]:
    """Return the tokens of a prompt, and how many of them are firm."""
    vocabulary = hash_model(kind).vocabulary()
    tokens = vocabulary.encode(prompt, start=True)
    firm = splitter(kind).split(tuple(tokens)).tokens
    if kind == "no first token" and firm == (vocabulary.start_id,):
        return tokens, 0
    assert firm == tuple(tokens[: len(firm)])
    return tokens, len(firm)


@pytest.mark.parametrize("kind", sorted(CORNERS.keys() - {"composed characters", "no bytes"}))
@given(texts, texts)
@example("a \t", "the")
@example("the\n\n\n", "the")
@example("the  ", "cat")
@example("12", "3")
@example("   <thi", "nk>")
def test_no_continuation_changes_the_firm_tokens(kind: str, prompt: str, more: str) -> None:
    tokens, firm = firm_tokens(kind, prompt)
    longer = hash_model(kind).vocabulary().encode(prompt + more, start=True)
    assert longer[:firm] == tokens[:firm]


@pytest.mark.parametrize("kind", KINDS)
def test_nearly_all_of_a_prompt_is_firm(kind: str) -> None:
    tokens, firm = firm_tokens(kind, "the cat sat on that mat. 12 12 the cat and then the th")
    assert firm < len(tokens)
    longest = max(map(len, hash_model(kind).data))
    tail = hash_model(kind).bytes_of(tokens[firm:])
    assert 0 < len(tail) <= longest + 4


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_long_prompt_only_the_last_part_is_encoded(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    vocabulary = hash_model(kind).vocabulary()
    known = SortedTokens(vocabulary)
    canonical = CanonicalTokens(vocabulary, known)
    own = PromptSplitter(vocabulary, known, canonical)
    encoded: list[int] = []
    encode = canonical._encode
    monkeypatch.setattr(
        canonical, "_encode", lambda text: encoded.append(len(text)) or encode(text)
    )
    text = "the cat sat on that mat. 12\n" * 3600 + "a" + " " * 64
    prompt = tuple(vocabulary.encode(text, start=True))
    split = own.split(prompt)
    assert sum(encoded) < 20_000
    encoded.clear()
    # The whole text says the same, at a much higher cost.
    stays = own._stay(prompt[1:])
    assert sum(encoded) > 100_000
    assert (split.tokens, split.tail) == (prompt[: 1 + stays], known.bytes_of(prompt[1 + stays :]))


@pytest.mark.parametrize("kind", CORNERS)
def test_a_prompt_that_ends_with_a_special_token_is_firm(kind: str) -> None:
    tokens = (*hash_model(kind).vocabulary().encode("the th"), START)
    for prompt in (tokens, (START,)):
        split = splitter(kind).split(prompt)
        assert (split.tokens, split.tail) == (prompt, b"")


@pytest.mark.parametrize("kind", KINDS)
@given(texts, texts)
@example("the cat sat on that m", "at")
@example("12 1", "234")
@example("東東def that", "at")
@example("HIthat", "")
@example("(. the  ", "")
@example("8뺬 ", "")
def test_the_bytes_after_the_firm_tokens_are_read_as_if_all_were(
    kind: str, prompt: str, more: str
) -> None:
    """No cover of a text whose prompt is read byte by byte has other tokens than the firm ones."""
    model = hash_model(kind)
    tokens, firm = firm_tokens(kind, prompt)
    if model.bytes_of(tokens).decode(errors="replace").removeprefix(" ") != prompt.lstrip(" "):
        return  # The tokenizer changes this text.
    known, canonical = sorted_tokens(kind)
    head, tail = tokens[:firm], model.bytes_of(tokens[firm:])
    part = CoveredText(known, canonical, canonical.last(head[1:]))
    whole = CoveredText(known, canonical)
    for end in range(len(more.encode()) + 1):
        rows = []
        for text, start, begun in ((part, head, tail), (whole, [START], model.bytes_of(tokens))):
            data = begun + more.encode()[:end]
            while (wanted := text.wanted(data)) is not None:
                text.receive(wanted, torch.from_numpy(model.after([*start, *wanted])).log())
            rows.append(text.rows(1)[0].exp())
        torch.testing.assert_close(rows[0], rows[1], atol=1e-5, rtol=1e-3)
