"""Small models over tokenizers of several kinds, and the law of their next byte, by enumeration.

Everything here is computed by itself: the bytes of the tokens from their texts, canonical tokens by
encoding a whole text, and probabilities by a pass for each token sequence.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch
from support.chat_families import byte_letters
from support.vocabularies import TEXTS, without_special_bytes
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from marith.scoring.prompting.tokenizer import Vocabulary
from marith.testing import tiny_model

START, END = 0, 1
END_OF_BYTES = 256
LETTERS = {byte_letters(bytes([byte])): byte for byte in range(256)}
SPECIAL = ("<s>", "</s>", "<unk>")
SAMPLE = (
    "the cat and then the other cat sat on that mat. It's the man's hat, isn't it?",
    "the  the   the    and\n\nthe\n\n\nthen 12 123 1234 2024 12 12 2024\n\n\n\n",
    "def the(cat):\n    that = 12\n\n    return  that\n\n\n",
    "été café über 東京 東京 🎉🎉 naïve e\u0301te\u0301",
    *TEXTS[:1],
)
GROUPS = r"\p{N}{1,3}|\s?\p{L}+|\s*[\r\n]+|\s+(?!\S)|[^\s\p{L}\p{N}]+|\s+"


def _finished(raw: Tokenizer, added: Iterable[AddedToken] = ()) -> PreTrainedTokenizerFast:
    raw.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    raw.add_tokens([*added])
    raw.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", START)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def byte_level(
    *before: Any, added: Iterable[AddedToken] = (), size: int = 340, regex: bool = True
) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE. The pretokenizers `before` split the text first.

    With `regex`, it is also split as GPT-2 splits it.
    """
    raw = Tokenizer(models.BPE())
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)
    raw.pre_tokenizer = pre_tokenizers.Sequence([*before, last])
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[*SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(SAMPLE, trainer)
    return _finished(raw, added)


def changed(tokenizer: PreTrainedTokenizerFast, **fields: Any) -> PreTrainedTokenizerFast:
    """Return a tokenizer with other fields of its BPE model."""
    data = json.loads(tokenizer.backend_tokenizer.to_str())
    data["model"].update(fields)
    return _finished(Tokenizer.from_str(json.dumps(data)))


def endless(tokenizer: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    """Return a tokenizer that names no token as the end of a text."""
    tokenizer.eos_token = None
    return tokenizer


def unbegun(tokenizer: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    """Return a tokenizer that writes no first token before a text."""
    tokenizer.bos_token = None
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A")
    return tokenizer


def pieces(
    prepended: bool = False, bytes_too: bool = True, texts: Sequence[str] = SAMPLE[:3]
) -> PreTrainedTokenizerFast:
    """Return a BPE as SentencePiece has it, in which `▁` is a space, with the characters of texts.

    If `prepended`, a space is put before every text. With `bytes_too`, each byte is a token, which
    is used for characters that are not in the vocabulary; else such characters are unknown.
    """
    fallback = [f"<0x{byte:02X}>" for byte in range(256)] if bytes_too else []
    model = models.BPE(unk_token="<unk>", byte_fallback=bytes_too, fuse_unk=True)
    raw = Tokenizer(model)
    raw.normalizer = normalizers.Replace(" ", "▁")
    trainer = trainers.BpeTrainer(
        vocab_size=len(fallback) + 90, special_tokens=[*SPECIAL, *fallback], show_progress=False
    )
    raw.train_from_iterator(texts, trainer)
    raw = Tokenizer.from_str(without_special_bytes(raw.to_str()))
    first = [normalizers.Prepend("▁")] if prepended else []
    raw.normalizer = normalizers.Sequence([*first, normalizers.Replace(" ", "▁")])
    strip = [decoders.Strip(" ", 1, 0)] if prepended else []
    raw.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    return _finished(raw)


def _composing() -> PreTrainedTokenizerFast:
    tokenizer = byte_level()
    tokenizer.backend_tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def _with_tab() -> PreTrainedTokenizerFast:
    """Return a tokenizer that has a space and a tab as a token, and no longer token with them."""
    data = json.loads(byte_level().backend_tokenizer.to_str())["model"]
    data["vocab"][byte_letters(b" \t")] = len(data["vocab"])
    merges = [*data["merges"], [byte_letters(b" "), byte_letters(b"\t")]]
    return changed(byte_level(), vocab=data["vocab"], merges=merges)


def _with_marks() -> PreTrainedTokenizerFast:
    added = [
        AddedToken("<|turn|>", special=True),
        AddedToken("<think>", special=False, normalized=False),
        AddedToken("  the", special=False, lstrip=True, normalized=False),
        AddedToken("\n\n\n\n\n", special=False, rstrip=True, normalized=False),
    ]
    return byte_level(added=added)


# Three kinds are the common ones; the others have one corner each.
KINDS: dict[str, Callable[[], PreTrainedTokenizerFast]] = {
    "byte level": byte_level,
    "byte level, no pretokenizer": lambda: byte_level(regex=False),
    "pieces": pieces,
    "pieces after a space": lambda: pieces(prepended=True),
}
CORNERS: dict[str, Callable[[], PreTrainedTokenizerFast]] = {
    **KINDS,
    "added tokens": _with_marks,
    "single digits": lambda: byte_level(pre_tokenizers.Digits(individual_digits=True)),
    "three digits": lambda: byte_level(
        pre_tokenizers.Split(Regex(GROUPS), "isolated"), regex=False
    ),
    "whole words first": lambda: changed(byte_level(size=300), ignore_merges=True),
    "composed characters": _composing,
    "a space and a tab": _with_tab,
    "no bytes": lambda: pieces(bytes_too=False),
    "whole characters": lambda: pieces(bytes_too=False, texts=SAMPLE[:4]),
    "no first token": lambda: unbegun(byte_level()),
    "no end": lambda: endless(byte_level()),
}


@cache
def tokenizer_of(kind: str) -> PreTrainedTokenizerFast:
    return CORNERS[kind]()


def bytes_of_token(text: str, is_byte_level: bool) -> bytes:
    """Return the bytes of a token that is not added."""
    if is_byte_level:
        return bytes(LETTERS[letter] for letter in text)
    if text.startswith("<0x") and len(text) == 6:
        return bytes.fromhex(text[3:5])
    return text.replace("▁", " ").encode()


@dataclass(eq=False)
class ByteModel:
    """A model of tokens, with what the law of its bytes needs.

    `data` are the bytes of each token, b"" for a special one. `encode` returns the canonical tokens
    of a text that follows other text.
    """

    kind: str
    model: Any = None
    ends: tuple[int, ...] = (END,)
    data: list[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.tokenizer = tokenizer_of(self.kind)
        if self.tokenizer.eos_token is None:
            self.ends = ()
        raw = Tokenizer.from_str(self.tokenizer.backend_tokenizer.to_str())
        raw.encode_special_tokens = True
        added = raw.get_added_tokens_decoder()
        is_byte_level = isinstance(raw.decoder, decoders.ByteLevel)
        self.data = [b""] * raw.get_vocab_size(with_added_tokens=True)
        for text, token in raw.get_vocab(with_added_tokens=True).items():
            if token not in added:
                self.data[token] = bytes_of_token(text, is_byte_level)
            elif not added[token].special:
                self.data[token] = text.encode()
        if "after a space" in self.kind:
            # Text that follows other text has no space put before it.
            raw.normalizer = normalizers.Replace(" ", "▁")
        self._raw = raw
        self._after = cache(self._pass)
        self.is_canonical = cache(self._writes)

    @property
    def size(self) -> int:
        return len(self.data)

    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.tokenizer, self.size, self.ends)

    def encode(self, text: str) -> list[int]:
        return list(self._raw.encode(text, add_special_tokens=False).ids)

    def bytes_of(self, tokens: Iterable[int]) -> bytes:
        return b"".join(self.data[token] for token in tokens)

    def after(self, tokens: Sequence[int]) -> np.ndarray:
        """Return the probabilities [size] of the token after tokens."""
        return self._after(tuple(tokens))

    @torch.no_grad()
    def _pass(self, tokens: tuple[int, ...]) -> np.ndarray:
        logits = self.model(torch.tensor([tokens])).logits[0, -1]
        return np.asarray(torch.softmax(logits.double(), dim=-1).numpy())

    def _writes(self, tokens: tuple[int, ...]) -> bool:
        """Return True if the tokenizer writes these tokens at the start of some text.

        The text is that of the tokens, alone or before a character that no token joins to it.
        Characters that are incomplete are cut off.
        """
        while tokens:
            try:
                text = self.bytes_of(tokens).decode()
            except UnicodeDecodeError as error:
                if error.reason != "unexpected end of data":
                    return False
                tokens = tokens[:-1]
                continue
            wanted = [*tokens]
            return any(self.encode(text + rest)[: len(wanted)] == wanted for rest in ("", "\x7f"))
        return True

    def law(self, data: bytes, canonical: bool = True, start: Sequence[int] = (START,)) -> Any:
        """Return the probabilities [257] of the byte after `data`, from every cover by itself."""
        mass = np.zeros(257)

        def visit(tokens: tuple[int, ...], probability: float, left: bytes) -> None:
            row = self.after([*start, *tokens])
            for token, text in enumerate(self.data):
                if text and left.startswith(text):
                    longer = (*tokens, token)
                    if not canonical or self.is_canonical(longer):
                        visit(longer, probability * row[token], left[len(text) :])
                elif len(text) > len(left) and text.startswith(left):
                    mass[text[len(left)]] += probability * row[token]
            if not left:
                mass[END_OF_BYTES] += probability * row[[*self.ends]].sum()

        visit((), 1.0, data)
        return mass / mass.sum()


class HashModel(ByteModel):
    """A model whose probabilities are random numbers, seeded by all tokens before."""

    def _pass(self, tokens: tuple[int, ...]) -> np.ndarray:
        seed = zlib.crc32(np.array(tokens).tobytes())
        scores = np.exp(2.0 * np.random.default_rng(seed).standard_normal(self.size))
        return np.asarray(scores / scores.sum())


@cache
def byte_model(kind: str, seed: int = 3) -> ByteModel:
    """Return a two-layer model with random weights over a tokenizer."""
    size = tokenizer_of(kind).backend_tokenizer.get_vocab_size(with_added_tokens=True)
    return ByteModel(kind, tiny_model(vocab=size, seed=seed, sharpness=3.0, context_length=256))


@cache
def hash_model(kind: str) -> HashModel:
    return HashModel(kind)


def saved(model: ByteModel, folder: Any) -> str:
    """Save a model with its tokenizer. Return the directory."""
    model.model.save_pretrained(folder)
    model.tokenizer.save_pretrained(folder)
    return str(folder)
