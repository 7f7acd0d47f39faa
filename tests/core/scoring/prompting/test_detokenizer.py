"""Text as tokens arrive: whole characters, each with the token that began it."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.chat_families import byte_letters, speaker
from support.vocabularies import TEXTS, byte_level, llama_like
from tokenizers import pre_tokenizers

from marith.scoring.prompting.tokenizer import Detokenizer, Vocabulary
from marith.scoring.weights.loader import Placement, language_model
from marith.testing import tiny_tokenizer

BROKEN = "\ufffd"


def streamed(vocabulary: Vocabulary, tokens: list[int]) -> tuple[list[str], str]:
    """The pieces of all tokens, and what is left at the end."""
    detokenizer = Detokenizer(vocabulary)
    return [detokenizer.feed(token) for token in tokens], detokenizer.flush()


@given(tokens=st.lists(st.integers(0, byte_level().size - 1), max_size=40))
def test_any_byte_level_tokens_stream_to_the_whole_text(tokens: list[int]) -> None:
    vocabulary = byte_level()
    pieces, rest = streamed(vocabulary, tokens)
    assert "".join(pieces) + rest == vocabulary.decode(tokens)
    assert not any(piece.endswith(BROKEN) for piece in pieces)


@given(
    text=st.lists(st.sampled_from(TEXTS) | st.text(max_size=12), max_size=4).map("".join),
    cut=st.integers(0, 200),
)
@pytest.mark.parametrize("build", [byte_level, llama_like])
def test_no_piece_of_a_text_holds_a_broken_character(build: Any, text: str, cut: int) -> None:
    vocabulary = build()
    text = text.replace(BROKEN, "")
    tokens = vocabulary.encode(text)
    pieces, rest = streamed(vocabulary, tokens)
    assert "".join(pieces) + rest == vocabulary.decode(tokens)
    pieces, _ = streamed(vocabulary, tokens[:cut])
    assert not any(BROKEN in piece for piece in pieces)


@st.composite
def llama_tokens(draw: st.DrawFn) -> list[int]:
    """Any tokens in any order, bytes only as whole characters."""
    vocabulary = llama_like()
    known = sorted(i for text, i in vocabulary._ids.items() if not text.startswith("<0x"))
    single = st.sampled_from(known).map(lambda token: [token])
    character = st.sampled_from("é狐👩ت").map(
        lambda c: [vocabulary._ids[f"<0x{b:02X}>"] for b in c.encode()]
    )
    return [t for part in draw(st.lists(single | character, max_size=25)) for t in part]


@given(tokens=llama_tokens())
def test_any_metaspace_tokens_stream_to_the_whole_text(tokens: list[int]) -> None:
    vocabulary = llama_like()
    pieces, rest = streamed(vocabulary, tokens)
    assert "".join(pieces) + rest == vocabulary.decode(tokens)
    assert not any(BROKEN in piece for piece in pieces)


@given(texts=st.lists(st.sampled_from("abc") | st.just("<end>"), max_size=12))
def test_special_tokens_leave_no_text_and_lose_none(texts: list[str]) -> None:
    vocabulary = Vocabulary(tiny_tokenizer(), 28)
    tokens = [vocabulary._ids[text] for text in texts]
    pieces, rest = streamed(vocabulary, tokens)
    assert "".join(pieces) + rest == "".join(t for t in texts if t != "<end>")


def test_an_incomplete_character_comes_with_the_flush_and_only_once() -> None:
    vocabulary = byte_level()
    tokens = vocabulary.encode("狐")
    assert len(tokens) > 1 or vocabulary.decode(tokens) == "狐"
    raw = [vocabulary._ids[pre_byte] for pre_byte in letters_of("👩")[:2]]
    detokenizer = Detokenizer(vocabulary)
    assert [detokenizer.feed(token) for token in raw] == ["", ""]
    assert BROKEN in detokenizer.flush()
    assert detokenizer.flush() == ""


def letters_of(text: str) -> list[str]:
    """The byte-level letters that spell a text."""
    byte_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return list(byte_only.pre_tokenize_str(text)[0][0])


@given(text=st.text(max_size=12) | st.sampled_from(TEXTS), byte_by_byte=st.booleans())
def test_a_character_belongs_to_the_token_that_begins_it(text: str, byte_by_byte: bool) -> None:
    """In bytes: a token has as many as there are letters in its name."""
    vocabulary, text = byte_level(), text.replace(BROKEN, "")
    names = letters_of(text) if text and byte_by_byte else []
    tokens = [vocabulary._ids[name] for name in names] or vocabulary.encode(text)
    starts = [len(text[:at].encode()) for at in range(len(text))]
    detokenizer, count = Detokenizer(vocabulary), 0
    for token in tokens:
        assert detokenizer.begun == sum(start < count for start in starts)
        detokenizer.feed(token)
        count += len(str(vocabulary.raw.id_to_token(token)))
    assert detokenizer.begun == detokenizer.written == len(text)


@given(
    tokens=st.lists(st.integers(0, byte_level().size - 1), max_size=12),
    others=st.lists(st.integers(0, byte_level().size - 1), max_size=12),
    at=st.integers(0, 12),
)
def test_a_copy_reads_on_independently(tokens: list[int], others: list[int], at: int) -> None:
    vocabulary, detokenizer = byte_level(), Detokenizer(byte_level())
    pieces = [detokenizer.feed(token) for token in tokens[:at]]
    copied = copy(detokenizer)
    more = [copied.feed(token) for token in others]
    assert [*pieces, *more, copied.flush()] == [
        *(again := streamed(vocabulary, tokens[:at] + others))[0],
        again[1],
    ]
    pieces += [detokenizer.feed(token) for token in tokens[at:]]
    assert (pieces, detokenizer.flush()) == streamed(vocabulary, tokens)


def test_a_mark_of_calls_is_text_unless_the_tokenizer_lists_it_as_special() -> None:
    """As transformers decodes it with `skip_special_tokens`: pocket's are none, as Qwen's are."""
    vocabulary = language_model("pocket", Placement()).vocabulary
    words = vocabulary.encode("A", literal=True)
    for mark, text in (("</tool_call>", "A</tool_call>"), ("<|tool|>", "A")):
        tokens = [*words, *vocabulary.encode(mark, literal=False)]
        assert len(tokens) == len(words) + 1
        detokenizer = Detokenizer(vocabulary)
        assert "".join(map(detokenizer.feed, tokens)) + detokenizer.flush() == text
        assert vocabulary.tokenizer.decode(tokens, skip_special_tokens=True) == text


FISH = "\N{FISH}".encode()


@pytest.mark.parametrize(
    ("parts", "places"),
    [
        ([FISH[:2], b"ab", b" c"], [0, 1, 3]),
        ([FISH[:2], FISH[:2], FISH[2:], b"a"], [0, 1, 1, 2]),
        ([b"a", FISH[:2], FISH[2:3], FISH[3:], b"b"], [0, 1, 1, 1, 2]),
        ([FISH[:2], FISH[2:] + b"a" + FISH[:2], FISH[2:], b"b"], [0, 0, 2, 3]),
        ([FISH[3:], b"ab"], [0, 1]),
    ],
)
def test_a_token_after_a_broken_character_begins_behind_it(
    parts: list[bytes], places: list[int]
) -> None:
    """A character that is never completed is one of the text; only its own bytes go on with it."""
    vocabulary = speaker("none", tuple(sorted({part for part in parts if len(part) > 1})))
    detokenizer, found = Detokenizer(vocabulary), []
    for part in parts:
        found.append(detokenizer.place(part))
        token = vocabulary.raw.token_to_id(byte_letters(part))
        assert token is not None
        detokenizer.feed(token)
    assert found == places


def test_tokens_of_single_bytes_have_the_offset_of_their_character() -> None:
    vocabulary = llama_like()
    detokenizer, found = Detokenizer(vocabulary), []
    for byte in b"a" + FISH + b"b":
        found.append(detokenizer.place(bytes([byte])))
        detokenizer.feed(vocabulary._ids[f"<0x{byte:02X}>"])
    assert found == [0, 1, 1, 1, 1, 2]
