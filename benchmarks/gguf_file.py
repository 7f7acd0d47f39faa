"""Write a Llama of transformers as a GGUF file for llama.cpp, in any of its number types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor

_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def why_not(model: Any) -> str | None:
    """Return why a model cannot be written, or None if it can."""
    config = model.config
    if config.model_type != "llama" or config.hidden_act != "silu":
        return f"only a Llama is written for it, not {type(model).__name__}"
    if config.attention_bias or config.mlp_bias:
        return "only a Llama without biases is written for it"
    rotary = config.rope_parameters["rope_type"]
    return None if rotary == "default" else f"no Llama with {rotary!r} rotary scaling is written"


def write_gguf(
    model: Any, path: Path, numbers: str, tokenizer: Any = None, splits: str = "smollm"
) -> None:
    """Write a Llama with matrices in `numbers` (f32, f16, q8_0, q4_0). Vectors stay in f32.

    Without a byte-level `tokenizer`, the file takes and returns tokens. `splits` is llama.cpp's
    name of the way in which the tokenizer splits texts into words, such as "smollm" for the model
    `pocket`. Raises ValueError for widths that are no multiple of a block.
    """
    # The extra `gguf` installs this package.
    gguf = import_module("gguf")
    quants = import_module("gguf.quants")
    config, kind = model.config, gguf.GGMLQuantizationType[numbers.upper()]
    writer = gguf.GGUFWriter(path, "llama")
    if tokenizer is None:
        writer.add_tokenizer_model("no_vocab")
    else:
        write_tokenizer(writer, tokenizer, splits)
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    for name, values in _tensors(model):
        if values.ndim == 1:
            writer.add_tensor(name, values)
            continue
        try:
            packed = quants.quantize(values, kind)
        except quants.QuantError as error:
            # This error of gguf is not a ValueError.
            raise ValueError(str(error)) from error
        writer.add_tensor(name, packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_tokenizer(writer: Any, tokenizer: Any, splits: str) -> None:
    """Write a byte-level tokenizer: its vocabulary, merges, special tokens and chat template."""
    raw = json.loads(tokenizer.backend_tokenizer.to_str())
    added = {one["id"]: (one["content"], 3 if one["special"] else 4) for one in raw["added_tokens"]}
    named = {number: text for text, number in raw["model"]["vocab"].items()}
    size = max([*named, *added]) + 1
    rows = [added.get(i, (named.get(i, f"[PAD{i}]"), 1 if i in named else 5)) for i in range(size)]
    merges = [one if isinstance(one, str) else " ".join(one) for one in raw["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(splits)
    writer.add_token_list([text for text, _ in rows])
    writer.add_token_types([kind for _, kind in rows])
    writer.add_token_merges(merges)
    writer.add_add_bos_token(False)
    for kind in ("bos", "eos", "pad"):
        if (number := getattr(tokenizer, f"{kind}_token_id")) is not None:
            getattr(writer, f"add_{kind}_token_id")(number)
    if tokenizer.chat_template:
        writer.add_chat_template(tokenizer.chat_template)


def _tensors(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield each weight with its name in the file, in float32, one at a time."""
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and model.config.tie_word_embeddings:
            # llama.cpp uses the embedding if there is no head.
            continue
        yield _name(name), _in_its_order(name, weight.float(), model.config).numpy()


def _name(name: str) -> str:
    """Return the name in the file: `model.layers.0.mlp.up_proj.weight` → `blk.0.ffn_up.weight`."""
    module, _, kind = name.rpartition(".")
    if module in _OUTSIDE:
        return f"{_OUTSIDE[module]}.{kind}"
    _, _, layer, part = module.split(".", 3)
    return f"blk.{layer}.{_LAYER[part]}.{kind}"


def _in_its_order(name: str, weight: Tensor, config: Any) -> Tensor:
    """Return a weight [out, in] for llama.cpp, which rotates neighbours and not halves."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    count = heads.get(name.split(".")[-2])
    if count is None:
        return weight
    halves = weight.view(count, 2, weight.shape[0] // count // 2, weight.shape[1])
    return halves.transpose(1, 2).reshape(weight.shape)
