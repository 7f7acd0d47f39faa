"""Texts that are encoded in parts: the tokens are those of the whole text."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import (
    Regex,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.terms.text_encoder import STEP, Encoder
from marith.testing import tiny_tokenizer

CORPUS = [
    "The soup was warm and kind people sat at the table.",
    "Größe und Übermut: 12 von 345 Leuten, l'été, don't!",
    "it was the best of times  it was the worst of times\n\nno more",
]
LEFT_TO_RIGHT = r"'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def byte_level(prefix_space: bool) -> Tokenizer:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet))
    return raw


def split_by_pattern() -> Tokenizer:
    raw = byte_level(prefix_space=False)
    raw.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LEFT_TO_RIGHT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return raw


def metaspace(split: bool) -> Tokenizer:
    raw = Tokenizer(models.BPE(unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Metaspace(split=split)
    raw.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=300, special_tokens=["<unk>", "<s>"])
    )
    raw.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", raw.token_to_id("<s>"))]
    )
    return raw


def word_pieces() -> Tokenizer:
    raw = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    raw.normalizer = normalizers.BertNormalizer()
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    raw.train_from_iterator(
        CORPUS,
        trainers.WordPieceTrainer(vocab_size=200, special_tokens=["[UNK]", "[CLS]", "[SEP]"]),
    )
    raw.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return raw


def five_at_a_time() -> Tokenizer:
    """Counts from the text's beginning: not a tokenizer whose texts could be taken apart."""
    raw = byte_level(prefix_space=False)
    raw.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"[\s\S]{1,5}"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    return raw


def whole_words() -> Tokenizer:
    return Tokenizer.from_str(tiny_tokenizer().backend_tokenizer.to_str())


TOKENIZERS: dict[str, tuple[Callable[[], Tokenizer], bool]] = {
    "byte level": (lambda: byte_level(False), True),
    "byte level, prefix space": (lambda: byte_level(True), True),
    "pattern": (split_by_pattern, True),
    "metaspace": (lambda: metaspace(True), True),
    "metaspace, whole": (lambda: metaspace(False), False),
    "word pieces": (word_pieces, True),
    "whole words": (whole_words, True),
    "five at a time": (five_at_a_time, False),
}


@cache
def encoder_of(name: str) -> tuple[Encoder, Vocabulary]:
    raw: Any = TOKENIZERS[name][0]()
    vocabulary = Vocabulary(PreTrainedTokenizerFast(tokenizer_object=raw), 1000)
    return Encoder(vocabulary), vocabulary


SCRAPS = ("the", "soup", "Übermut", "don't", "12", "3456", "été", "e\u0301te", "汤", ",", "!", ".")
MARKS = ("<s>", "[SEP]", "a", "b", "\n", "  ", "")
bits = st.sampled_from(SCRAPS + MARKS) | st.text(max_size=6)
texts = st.lists(bits, max_size=60).map(" ".join)


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=texts, ends=st.lists(bits, max_size=4))
def test_the_tokens_are_those_of_the_whole_text(name: str, text: str, ends: list[str]) -> None:
    encoder, vocabulary = encoder_of(name)
    for whole in (text, *(text + end for end in ends), *(f"{text} {end}" for end in ends)):
        assert encoder(whole) == vocabulary.encode(whole, start=True)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_only_tokenizers_that_split_words_are_encoded_in_parts(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, vocabulary = encoder_of(name)
    text = "it was the best of times it was the worst of times " * 9
    assert encoder(text) == vocabulary.encode(text, start=True)
    lengths: list[int] = []
    encode = Vocabulary.encode

    def watched(self: Vocabulary, text: str, **how: Any) -> list[int]:
        lengths.append(len(text))
        return encode(self, text, **how)

    monkeypatch.setattr(Vocabulary, "encode", watched)
    encoder(text + "soup")
    assert (max(lengths) <= 3 * STEP) is TOKENIZERS[name][1]


def test_a_token_of_several_words_forbids_seams() -> None:
    raw = byte_level(prefix_space=False)
    raw.add_tokens(["best of times"])
    vocabulary = Vocabulary(PreTrainedTokenizerFast(tokenizer_object=raw), 1000)
    assert not Encoder(vocabulary).splits
