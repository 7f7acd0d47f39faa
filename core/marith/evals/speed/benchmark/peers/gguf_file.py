"""A Llama of transformers as a file of llama.cpp's, in any of its types of numbers."""

from __future__ import annotations

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
    """Why a model cannot be written; None where it can."""
    config = model.config
    if config.model_type != "llama" or config.hidden_act != "silu":
        return f"only a Llama is written for it, not {type(model).__name__}"
    if config.attention_bias or config.mlp_bias:
        return "only a Llama without biases is written for it"
    rotary = config.rope_parameters["rope_type"]
    return None if rotary == "default" else f"no Llama with {rotary!r} rotary scaling is written"


def write_gguf(model: Any, path: Path, numbers: str) -> None:
    """Write a Llama whose matrices are in `numbers` (f32, f16, q8_0, q4_0); vectors stay in f32.

    It has no tokenizer: tokens go in and out. Raises ValueError for widths that no block divides.
    """
    gguf = import_module("gguf")  # a peer's, which is installed for the bench alone
    quants = import_module("gguf.quants")
    config, kind = model.config, gguf.GGMLQuantizationType[numbers.upper()]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("no_vocab")
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
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue  # llama.cpp takes the embedding where there is no head
        values = _in_its_order(name, weight.float(), config).numpy()
        if values.ndim == 1:
            writer.add_tensor(_name(name), values)
        else:
            try:
                packed = quants.quantize(values, kind)
            except quants.QuantError as error:  # an Exception, and not one of values
                raise ValueError(str(error)) from error
            writer.add_tensor(_name(name), packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _name(name: str) -> str:
    """`model.layers.0.mlp.up_proj.weight` → `blk.0.ffn_up.weight`."""
    module, _, kind = name.rpartition(".")
    if module in _OUTSIDE:
        return f"{_OUTSIDE[module]}.{kind}"
    _, _, layer, part = module.split(".", 3)
    return f"blk.{layer}.{_LAYER[part]}.{kind}"


def _in_its_order(name: str, weight: Tensor, config: Any) -> Tensor:
    """[out, in], where llama.cpp rotates neighbours and transformers the halves of each head."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    count = heads.get(name.split(".")[-2])
    if count is None:
        return weight
    halves = weight.view(count, 2, weight.shape[0] // count // 2, weight.shape[1])
    return halves.transpose(1, 2).reshape(weight.shape)
