"""Small real models: random weights, real tokenizers, real caches, no downloads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

END = "<end>"
START = "<start>"
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message.role + ' : ' + message.content + ' ' }}{% endfor %}"
    "{% if add_generation_prompt %}assistant :{% endif %}"
)
LETTERS = "abcdefghijklmnopqrstuvwxyz"
_BASE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
_HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}
_SIZES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "llama": (LlamaConfig, LlamaForCausalLM, {**_BASE, **_HEADS}),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, {**_BASE, **_HEADS}),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {**_BASE, **_HEADS, "head_dim": 8}),
    "gpt2": (GPT2Config, GPT2LMHeadModel, {"n_embd": 32, "n_layer": 2, "n_head": 4}),
    "gpt_neox": (GPTNeoXConfig, GPTNeoXForCausalLM, {**_BASE, "num_attention_heads": 4}),
}
FAMILIES = tuple(_SIZES)


def tiny_tokenizer(
    words: Sequence[str] = tuple(LETTERS), chat_template: str | None = None
) -> PreTrainedTokenizerFast:
    """Return a tokenizer of whole words: `<start>` is 0, `<end>` is 1, then the words in order."""
    vocabulary = {text: i for i, text in enumerate((START, END, *words))}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token=words[0]))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    raw.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token=START, eos_token=END)
    tokenizer.chat_template = chat_template
    return tokenizer


def tiny_model(
    family: str = "llama",
    vocab: int = 28,
    seed: int = 0,
    sharpness: float = 4.0,
    context_length: int = 128,
) -> Any:
    """Return a two-layer model with random weights, which are equal for equal seeds.

    `sharpness` scales the logits. Without it they would be nearly uniform, so that no draft would
    be rejected and no formula would change a token.
    """
    config_class, model_class, sizes = _SIZES[family]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = config_class(
            vocab_size=vocab,
            max_position_embeddings=context_length,
            tie_word_embeddings=False,
            bos_token_id=0,
            eos_token_id=1,
            pad_token_id=None,
            **sizes,
        )
        model = model_class(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 2:
                    parameter.normal_(std=0.3)
            model.get_output_embeddings().weight.normal_(std=0.1 * sharpness)
    return model


def tiny_classifier(vocab: int = 28, seed: int = 0, labels: Sequence[str] = ("no", "yes")) -> Any:
    """Return a two-layer sequence classifier with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes: dict[str, Any] = {
            **_BASE,
            **_HEADS,
            "id2label": dict(enumerate(labels)),
            "label2id": {label: i for i, label in enumerate(labels)},
        }
        config = LlamaConfig(
            vocab_size=vocab,
            max_position_embeddings=128,
            pad_token_id=0,
            bos_token_id=0,
            eos_token_id=1,
            **sizes,
        )
        model = LlamaForSequenceClassification(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 2:
                    parameter.normal_(std=0.3)
    return model
