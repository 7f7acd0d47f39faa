"""Small random models of several architectures, written as GGUF files in float32."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import gguf
import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.integrations.ggml import GGUF_CONFIG_MAPPING
from transformers.modeling_gguf_pytorch_utils import (
    TENSOR_PROCESSORS,
    TensorProcessor,
    get_gguf_hf_weights_map,
)

from benchmarks.gguf_file import write_tokenizer

_BASE = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
_GEMMA = {**_BASE, "head_dim": 8, "sliding_window": 64}
SIZES: dict[str, dict[str, Any]] = {
    "llama": _BASE | {"tie_word_embeddings": False},
    "qwen2": _BASE,
    "qwen3": _BASE | {"head_dim": 8, "tie_word_embeddings": True},
    "phi3": _BASE,
    "gemma2": _GEMMA | {"query_pre_attn_scalar": 8},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128, "n_inner": 128},
    "starcoder2": _BASE,
    "mamba": {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "state_size": 8,
        "tie_word_embeddings": True,
    },
}
_SPECIAL = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}


def family_model(family: str, vocab: int, **more: Any) -> Any:
    """Return a random model. Its biases and norms are random too, so that a lost one is seen."""
    config = AutoConfig.for_model(family, vocab_size=vocab, **_SPECIAL, **(SIZES[family] | more))
    torch.manual_seed(len(family))
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model


def write_family(
    model: Any,
    path: Path,
    tokenizer: Any,
    extra: Mapping[str, np.ndarray] = MappingProxyType({}),
    **metadata: float | str,
) -> None:
    """Write a model as llama.cpp's converter does.

    `extra` are further tensors, and `metadata` are further values of its architecture.
    """
    config, family = model.config, model.config.model_type
    writer = gguf.GGUFWriter(path, family)
    write_tokenizer(writer, tokenizer, "smollm")
    stated = config.to_dict()
    stated |= {"rope_theta": (stated.get("rope_parameters") or {}).get("rope_theta")}
    if family == "gpt2":
        stated |= {"n_ctx": 128}
    elif family == "mamba":
        writer.add_context_length(128)
        writer.add_feed_forward_length(0)
        writer.add_head_count(0)
    elif family == "qwen3":
        writer.add_key_length(config.head_dim)
    for key, name in GGUF_CONFIG_MAPPING[family].items():
        value = stated.get(name) if name else None
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        add = writer.add_uint32 if isinstance(value, int) else writer.add_float32
        add(f"{family}.{key}", value)
    for key, value in metadata.items():
        add = {str: writer.add_string, int: writer.add_uint32}.get(type(value), writer.add_float32)
        add(f"{family}.{key.replace('__', '.')}", value)
    processor = TENSOR_PROCESSORS.get(family, TensorProcessor)(config.to_dict())
    names = {hf: name for name, hf in get_gguf_hf_weights_map(model, processor).items()}
    for hf, weight in model.state_dict().items():
        if hf == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if hf in names:
            writer.add_tensor(names[hf], _as_stored(family, names[hf], weight.numpy(), config))
    for name, values in extra.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _as_stored(family: str, name: str, values: np.ndarray, config: Any) -> np.ndarray:
    """Return a tensor as llama.cpp's converter stores it."""
    if family.startswith("gemma") and name.endswith("norm.weight"):
        return values + 1
    part = name.split(".")[2] if name.startswith("blk.") else name.split(".")[0]
    if part == "ssm_a":
        return -np.exp(values)
    if part == "ssm_conv1d" and values.ndim == 3:
        return np.ascontiguousarray(values.squeeze(1))
    if family == "gpt2" and part in {"attn_qkv", "attn_output", "ffn_up", "ffn_down"}:
        return np.ascontiguousarray(values.T) if values.ndim == 2 else values
    if family == "llama" and part in {"attn_q", "attn_k"}:
        heads = config.num_attention_heads if part == "attn_q" else config.num_key_value_heads
        halves = values.reshape(heads, 2, values.shape[0] // heads // 2, values.shape[1])
        return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(values.shape))
    return values
