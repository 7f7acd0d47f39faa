"""Build the tokenizer of a GGUF file: its vocabulary, merges, special tokens and template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.integrations.gguf.gguf_tokenizer_mapping import (
    GGUF_PRE_TOKENIZER_SPLITS,
    GGUF_TOKENIZER_MAPPING,
    GGUF_TOKENIZER_TYPES,
    convert_gguf_tokenizer,
)

from marith.errors import ModelError
from marith.scoring.weights.gguf.gguf_header import GGUFHeader
from marith.scoring.weights.kinds import raising_model_error

_BYTE_LEVEL = "gpt2"
# These pre-tokenizers split a text into words as GPT-2 does.
_AS_GPT2 = {"gpt-2", "mpt", "olmo", "jais", "phi-2", "trillion", "roberta-bpe"}
# These split a text into words as GPT-2 does, and each digit is a word.
_DIGITS = {"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b"}
# With these, llama.cpp adds a first token, and does not split a word that is a token.
_WHOLE_WORDS = {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "tekken"}
_WHOLE_WORDS |= {"midm-2.0", "lfm2", "jina-v5-nano"}
_ENDS = ("eos", "eot", "eom")
# Tokens with these texts end a turn even if the file does not state it, as in llama.cpp.
_END_TEXTS = (
    "<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>",
    "<|end_of_text|>", "<EOT>", "<|return|>", "<|call|>", "<turn|>",
)  # fmt: skip


def gguf_tokenizer(name: str, header: GGUFHeader) -> Any:
    """Return the tokenizer of a file. Raises ModelError if it cannot be built exactly."""
    kind = header.metadata.get("tokenizer.ggml.model")
    splits = str(header.metadata.get("tokenizer.ggml.pre", "default"))
    if kind not in GGUF_TOKENIZER_TYPES:
        raise _refused(name, f"its tokenizer is of the kind {kind!r}")
    known = {*GGUF_PRE_TOKENIZER_SPLITS, *_AS_GPT2, *_DIGITS}
    if kind == _BYTE_LEVEL and splits not in known:
        raise _refused(name, f"it splits texts into words as {splits!r} does")
    with raising_model_error(f"cannot read the tokenizer of {name!r}"):
        described, named = _described(header)
        backend, _ = convert_gguf_tokenizer(header.architecture, described)
        if kind == _BYTE_LEVEL and splits in _DIGITS:
            digits: Any = pre_tokenizers.Digits(individual_digits=True)
            words: Any = pre_tokenizers.ByteLevel(add_prefix_space=False)
            backend.pre_tokenizer = pre_tokenizers.Sequence([digits, words])
        if kind == _BYTE_LEVEL and splits in _WHOLE_WORDS:
            backend.model.ignore_merges = True
            named.setdefault("add_bos_token", named.get("bos_token") is not None)
        return _fast(backend, named)


def _described(header: GGUFHeader) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values from which transformers builds the tokenizer, and its class's options."""
    groups = [GGUF_TOKENIZER_MAPPING[group] for group in ("tokenizer", "tokenizer_config")]
    metadata = header.with_texts([f"tokenizer.{key}" for group in groups for key in group])
    described, named = (
        {
            name: metadata[f"tokenizer.{key}"]
            for key, name in group.items()
            if f"tokenizer.{key}" in metadata
        }
        for group in groups
    )
    if described["tokenizer_type"] == "llama":
        # This is llama.cpp's default.
        named.setdefault("add_bos_token", True)
    elif described["tokenizer_type"] == "gemma4":
        # The template of the model writes the first token itself.
        named["add_bos_token"] = False
    for kind in ("bos", "eos", "unk", "pad"):
        number = described.get(f"{kind}_token_id")
        named[f"{kind}_token"] = None if number is None else described["tokens"][number]
    return described, named


def _fast(backend: Tokenizer, named: Mapping[str, Any]) -> PreTrainedTokenizerFast:
    """Return a tokenizer of transformers around `backend`.

    The usual constructor would copy `backend` through JSON.
    """
    made = PreTrainedTokenizerFast.__new__(PreTrainedTokenizerFast)
    made._tokenizer = backend
    made.__init__(**named)  # type: ignore[misc]  # `__new__` above did not call it
    return made


def gguf_end_tokens(header: GGUFHeader, tokenizer: Any) -> Sequence[int]:
    """Return the tokens that end a text: tokens that the file names, and tokens by their texts."""
    named = (header.metadata.get(f"tokenizer.ggml.{kind}_token_id") for kind in _ENDS)
    vocabulary = tokenizer.get_vocab()
    special = {*tokenizer.all_special_tokens}
    by_text = (vocabulary[text] for text in _END_TEXTS if text in special and text in vocabulary)
    return [*dict.fromkeys([*(one for one in named if isinstance(one, int)), *by_text])]


def _refused(name: str, why: str) -> ModelError:
    advice = "Engine.load(…, tokenizer=…) takes the directory or the hub id of the tokenizer"
    return ModelError(f"the tokenizer of {name!r} cannot be built: {why}; {advice}")
