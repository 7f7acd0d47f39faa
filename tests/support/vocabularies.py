"""Vocabularies that are trained at once: of bytes, and of words that fall back to bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from marith.scoring.prompting.tokenizer import Vocabulary

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
    """Return a vocabulary of words with a Metaspace in front, and of bytes for other text."""
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
    """Return the trained tokenizer with its byte tokens as ordinary tokens."""
    import json

    data = json.loads(state)
    data["added_tokens"] = [t for t in data["added_tokens"] if not t["content"].startswith("<0x")]
    return json.dumps(data)


def byte_tokenizer(words: Sequence[str] = (), end: str | None = None) -> PreTrainedTokenizerFast:
    """Return a tokenizer of bytes, "th" and further `words`; the token `end` ends a text."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    texts = [*letters, "th", *words, *([end] if end else ())]
    raw = Tokenizer(models.BPE({text: i for i, text in enumerate(texts)}, [("t", "h")]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    named = {} if end is None else {"eos_token": end}
    return PreTrainedTokenizerFast(tokenizer_object=raw, **named)
