"""Make a small configuration of any architecture: every size of the configuration becomes small."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.chat_families import speaker
from transformers import AutoConfig

VOCAB = speaker("none").size
COMMON: dict[str, Any] = {
    "vocab_size": VOCAB, "bos_token_id": 0, "eos_token_id": None, "pad_token_id": 0,
}  # fmt: skip
WINDOW = 16
LAYERS = 4
# What a key holds in a small configuration that has it: by meaning, whatever the architecture.
SMALL: dict[str, Any] = {
    **COMMON,
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "embedding_size", "emb_dim",
                     "dim_model_base", "lru_width", "embedding_dim", "cross_hidden_size",
                     "input_embedding_size", "output_embedding_size"), 64),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "decoder_ffn_dim", "encoder_ffn_dim",
                     "dff", "ffn_hidden_size", "intermediate_size_mlp", "d_inner", "dim_ff",
                     "dense_intermediate_size"), 128),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size",
                     "shared_experts_intermediate_size", "shared_intermediate_size",
                     "moe_shared_expert_intermediate_size", "expert_ffn_hidden_size",
                     "router_hidden_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), LAYERS),
    **dict.fromkeys(("decoder_layers", "num_decoder_layers", "num_blocks", "encoder_layers",
                     "num_encoder_layers"), 2),
    **dict.fromkeys(("depth", "num_global_layers"), 1),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "attention_heads",
                     "num_heads", "decoder_attention_heads", "encoder_attention_heads",
                     "swa_num_attention_heads", "num_decoder_attention_heads",
                     "num_encoder_attention_heads", "linear_num_value_heads",
                     "linear_num_heads", "num_query_groups"), 4),
    **dict.fromkeys(("num_key_value_heads", "swa_num_key_value_heads",
                     "linear_num_key_heads", "num_global_key_value_heads", "n_groups",
                     "mamba_n_groups", "mamba_ngroups", "num_experts_per_tok",
                     "num_experts_per_token", "moe_topk", "moe_k", "n_mamba_heads",
                     "top_k_experts", "mamba_expand", "expand"), 2),
    **dict.fromkeys(("head_dim", "swa_head_dim", "swa_v_head_dim", "v_head_dim",
                     "kv_channels", "global_head_dim", "linear_key_head_dim",
                     "linear_value_head_dim", "linear_head_dim", "mamba_d_head",
                     "mamba_head_dim", "attention_head_size", "dim_head", "d_head",
                     "qk_head_dim", "index_head_dim", "q_lora_rank", "kv_lora_rank",
                     "o_lora_rank", "hc_lowrank", "hidden_size_per_layer_input",
                     "laurel_rank", "query_pre_attn_scalar", "adapter_rank",
                     "gated_norm_rank"), 16),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim", "rotary_dim", "mamba_n_heads",
                     "mamba_num_heads"), 8),
    # Few heads of an indexer score many keys exactly 0, and which of equals it takes is chance.
    **dict.fromkeys(("state_size", "mamba_d_state", "ssm_state_size", "index_n_heads"), 16),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len",
                     "context_length", "max_target_positions", "n_ctx"), 512),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts",
                     "moe_num_experts"), 4),
    **dict.fromkeys(("n_group", "topk_group", "num_expert_group", "n_shared_experts",
                     "first_k_dense_replace", "num_nextn_predict_layers", "zero_expert_num"), 1),
    **dict.fromkeys(("sliding_window", "attention_chunk_size", "local_attention",
                     "window_size", "attention_window_size", "sliding_window_size",
                     "index_topk", "keep_window_size", "local_attn_chunk_length",
                     "index_block_size", "chunk_size", "mamba_chunk_size"), WINDOW),
    "vocab_size_per_layer_input": VOCAB, "is_decoder": True, "num_kv_shared_layers": 0,
    "image_size": 28, "patch_size": 14, "use_mamba_kernels": False,
}  # fmt: skip
KINDS = ("layer_types", "mlp_layer_types")


def shrunk(model_type: str, *own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a small configuration. `own` are keys with other values."""
    default = AutoConfig.for_model(model_type)
    sizes = _small(default.to_dict())
    for more in own:
        sizes = _merged(sizes, more)
    kinds = _kinds(default.get_text_config().to_dict(), sizes.get("text_config", sizes))
    return _merged(sizes, {"text_config": kinds} if "text_config" in sizes else kinds)


def _small(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return sizes for all keys of a configuration and of its parts."""
    sizes = {key: SMALL[key] for key in given if key in SMALL}
    if "kv_lora_rank" in given:  # its keys are one for all heads, compressed
        sizes["num_key_value_heads"] = SMALL["num_attention_heads"]
        sizes |= {key: SMALL["qk_rope_head_dim"] for key in ("head_dim",) if key in given}
    parts = {k: v for k, v in given.items() if k.endswith("_config") and isinstance(v, Mapping)}
    for key, part in parts.items():
        sizes[key] = {**_small(part), **{k: part[k] for k in ("model_type",) if k in part}}
    return sizes


def _kinds(default: Mapping[str, Any], sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the kinds of layers, so that the small model has all of them."""
    count = sizes.get("num_hidden_layers", LAYERS)
    found = {}
    for key in KINDS:
        kinds = [*dict.fromkeys(default.get(key) or ())]
        if len(kinds) > 1 and key not in sizes:
            found[key] = (kinds * count)[:count]
    return found


def _merged(sizes: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return `sizes` with the values of `own` in their place, part by part."""
    merged = dict(sizes)
    for key, value in own.items():
        before = merged.get(key)
        nested = isinstance(before, Mapping) and isinstance(value, Mapping)
        merged[key] = _merged(before, value) if nested else value
    return merged
