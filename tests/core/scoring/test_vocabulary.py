"""Text in, tokens out, and text as tokens arrive, whatever others do to the tokenizer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AddedToken, PreTrainedTokenizerFast

from marith.errors import ModelError
from marith.scoring.vocabulary import TextStream, Vocabulary
from marith.testing import tiny_tokenizer

BROKEN = "\ufffd"
TEXTS = [
    "The quick brown fox jumps over the lazy dog. It's 12:30, isn't it?",
    "Der schnelle braune Fuchs springt über den faulen Hund — schön!",
    "Быстрая коричневая лиса прыгает через ленивую собаку.",
    "敏捷的棕色狐狸跳过懒狗。素早い茶色の狐。",
    "تحب القطة الحليب 👩‍👩‍👧 🎉 e\u0301 naïve\n\n\ttabs  and   spaces ",
]


def wrapped(raw: Tokenizer) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>")


@cache
def byte_level() -> Vocabulary:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    raw.train_from_iterator(TEXTS, trainer)
    return Vocabulary(wrapped(raw), 10**6)


@cache
def llama_like() -> Vocabulary:
    """Words with a Metaspace in front; what it has never seen falls back to bytes."""
    special = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    raw = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    raw.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    trainer = trainers.BpeTrainer(vocab_size=480, special_tokens=special, show_progress=False)
    raw.train_from_iterator(TEXTS[:3], trainer)
    state = raw.to_str()
    raw = Tokenizer.from_str(without_special_bytes(state))
    raw.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
         decoders.Strip(" ", 1, 0)]
    )  # fmt: skip
    return Vocabulary(wrapped(raw), 10**6)


def without_special_bytes(state: str) -> str:
    """The trained tokenizer with its byte tokens as ordinary ones."""
    import json

    data = json.loads(state)
    data["added_tokens"] = [t for t in data["added_tokens"] if not t["content"].startswith("<0x")]
    return json.dumps(data)


def streamed(vocabulary: Vocabulary, tokens: list[int]) -> tuple[list[str], str]:
    """The pieces of all tokens, and what is left at the end."""
    stream = TextStream(vocabulary)
    return [stream.feed(token) for token in tokens], stream.flush()


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
    stream = TextStream(vocabulary)
    assert [stream.feed(token) for token in raw] == ["", ""]
    assert BROKEN in stream.flush()
    assert stream.flush() == ""


def letters_of(text: str) -> list[str]:
    """The byte-level letters that spell a text."""
    byte_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return list(byte_only.pre_tokenize_str(text)[0][0])


def test_sixteen_threads_encode_as_one() -> None:
    vocabulary = byte_level()
    work = [(f"{text} {i} <s>", i % 2 == 0) for i in range(60) for text in TEXTS]

    def encode(item: tuple[str, bool]) -> tuple[list[int], str]:
        tokens = vocabulary.encode(item[0], literal=item[1])
        return tokens, vocabulary.decode(tokens)

    alone = [encode(item) for item in work]
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(encode, work)) == alone


def test_padding_and_truncation_of_the_callers_tokenizer_change_nothing() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.enable_truncation(3)
    tokenizer.backend_tokenizer.enable_padding(length=10)
    vocabulary = Vocabulary(tokenizer, 28)
    want = list(range(2, 10))
    assert vocabulary.encode("a b c d e f g h") == want
    tokenizer.backend_tokenizer.enable_truncation(2)
    assert vocabulary.encode("a b c d e f g h") == want
    assert tokenizer.backend_tokenizer.truncation["max_length"] == 2


@given(
    one=st.permutations("abcd").map(tuple),
    other=st.permutations("abcd").map(tuple),
    widths=st.tuples(st.integers(3, 9), st.integers(3, 9)),
)
def test_fingerprints_are_equal_exactly_when_the_vocabularies_are(
    one: tuple[str, ...], other: tuple[str, ...], widths: tuple[int, int]
) -> None:
    a, b = Vocabulary(tiny_tokenizer(one), widths[0]), Vocabulary(tiny_tokenizer(other), widths[1])
    same = one[: a.size - 2] == other[: b.size - 2]
    assert (a.fingerprint == b.fingerprint) == same


def test_size_counts_what_model_and_tokenizer_both_know() -> None:
    assert Vocabulary(tiny_tokenizer(), 1000).size == 28
    assert Vocabulary(tiny_tokenizer(), 20).size == 20


def test_every_end_that_anyone_names_is_an_end() -> None:
    assert Vocabulary(tiny_tokenizer(), 28, [5, 7]).eos_ids == {1, 5, 7}


def test_literal_text_spells_no_special_token() -> None:
    vocabulary = byte_level()
    assert vocabulary.encode("<s>", literal=False) == [0]
    letters = vocabulary.encode("<s>")
    assert not {0, 1} & set(letters)
    assert vocabulary.decode(letters) == "<s>"


def test_special_tokens_beyond_start_and_end_are_known_as_special() -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.add_special_tokens([AddedToken("<turn>", special=True)])
    vocabulary = Vocabulary(tokenizer, 40)
    assert "<turn>" in vocabulary.special_texts


def test_a_slow_tokenizer_is_refused_by_name() -> None:
    class SlowTokenizer:
        eos_token_id = 0

    with pytest.raises(ModelError, match="SlowTokenizer has no fast tokenizer"):
        Vocabulary(SlowTokenizer(), 10)
