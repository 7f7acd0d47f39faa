"""Exceptions to the general recipe: sizes of single architectures, variants, and runners.

Architectures that are not listed are built by `sizes.shrunk`, and run with a cache.
"""

from __future__ import annotations

from typing import Any

LLAMA: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512,
}  # fmt: skip
BERT = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 128, "max_position_embeddings": 512, "is_decoder": True}  # fmt: skip
ROPE = {"rope_theta": 10000.0, "factor": 4.0}
LONG = {"rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
INDEXER = {"indexer_n_heads": 16, "indexer_kv_heads": 1, "indexer_head_dim": 16,
           "indexer_budget": 16, "indexer_compress_ratio": 4}  # fmt: skip

# Sizes that an architecture needs besides, or instead of, those of the general recipe.
OWN: dict[str, dict[str, Any]] = {
    "bamba": {"attn_layer_indices": [2]},
    "blt": {"encoder_hash_byte_group_vocab": 500, "encoder_config": {"hidden_size_global": 64},
            "decoder_config": {"hidden_size_global": 64}},
    "cohere_compass_text": {
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": 10000.0}
                            for kind in ("sliding_attention", "full_attention")}},
    **{name: {"eos_token_id": 1} for name in ("cwm", "glm", "glm4", "phi4_multimodal")},
    "cpmant": {"prompt_length": 4},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8.0}},
    "dots3_note": {"text_config": {"head_dim": 16},
                   "vision_config": {"adapter_in_dim": 64, "adapter_out_dim": 64},
                   "audio_config": {"adapter_input_size": 64, "adapter_out_dim": 64}},
    "dots3_note_text": {"head_dim": 16},
    "falcon": {"alibi": False, "multi_query": True},
    "falcon_h1": {"mamba_d_ssm": 128},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"] * 2},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2},
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2},
    "minimax": {"block_size": 16},
    "mamba2": {"num_heads": 8},
    "nemotron_h": {"hybrid_override_pattern": "M*M-"},
    "qwen2": {"use_sliding_window": False},
    "qwen4_exp": {"text_config": INDEXER},
    "qwen4_exp_text": INDEXER,
    "recurrent_gemma": {"num_hidden_layers": 3},
    "reformer": {"attn_layers": ["local", "local"], "axial_pos_embds": False},
    "roc_bert": {"shape_embed_dim": 16, "shape_vocab_size": 300, "pronunciation_embed_dim": 16,
                 "pronunciation_vocab_size": 300},
    "rwkv": {"attention_hidden_size": 64, "rescale_every": 2},
    "xlm": {"causal": True, "pad_index": 0},
    "xmod": {"default_language": "en_XX"},
    "zamba": {"num_hidden_layers": 6, "layers_block_type": ["mamba", "hybrid"] * 3,
              "attention_head_dim": 32},
    "zamba2": {"layers_block_type": ["mamba", "hybrid"] * 2},
    "zaya": {"num_experts_per_tok": 1},
}  # fmt: skip

# Further configurations by name: the architecture, and how it differs from its plain one.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama rope llama3": ("llama", {"rope_parameters": {
        **ROPE, "rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 128}}),
    "llama rope dynamic": ("llama", {"rope_parameters": {**ROPE, "rope_type": "dynamic"}}),
    "qwen2 rope yarn": ("qwen2", {"rope_parameters": {
        **ROPE, "rope_type": "yarn", "original_max_position_embeddings": 128}}),
    "qwen2 window on": ("qwen2", {"use_sliding_window": True, "max_window_layers": 2}),
    "mistral without a window": ("mistral", {"sliding_window": None}),
    "phi3 without a window": ("phi3", {"sliding_window": None}),
    "phi3 longrope, short": ("phi3", {
        "sliding_window": None, "original_max_position_embeddings": 512,
        "rope_parameters": {**ROPE, **LONG, "original_max_position_embeddings": 512}}),
    "phi3 longrope": ("phi3", {"sliding_window": None, "original_max_position_embeddings": 64,
        "rope_parameters": {**ROPE, **LONG, "original_max_position_embeddings": 64}}),
    "phi3 longrope, long": ("phi3", {"max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096, "sliding_window": 262144,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [1.5] * 8},
        "rope_theta": 10000.0}),
    "phimoe longrope": ("phimoe", {"sliding_window": None, "rope_parameters": {
        **ROPE, **LONG, "original_max_position_embeddings": 64, "short_mscale": 1.1,
        "long_mscale": 1.3}}),
    "llama rope longrope": ("llama", {"rope_parameters": {
        **ROPE, **LONG, "original_max_position_embeddings": 64}}),
    "gpt_neo window 256": ("gpt_neo", {"window_size": 256}),
    "gemma3 window 512": ("gemma3", {"text_config": {"sliding_window": 512}}),
    "falcon alibi": ("falcon", {"alibi": True, "multi_query": False,
                                "new_decoder_architecture": False}),
    "mpt without alibi": ("mpt", {"attn_config": {"alibi": False}}),
    "gemma3n_text with shared keys": ("gemma3n_text", {
        "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 2}),
    "gemma4_text with shared keys": ("gemma4_text", {
        "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 2}),
    "big_bird block sparse": ("big_bird", {"attention_type": "block_sparse", "block_size": 4,
                                           "num_random_blocks": 1}),
    "bart with one layer that encodes": ("bart", {"encoder_layers": 1}),
}  # fmt: skip

# Architectures with a cache for each text.
STATES = frozenset((
    "axk2", "bailing_hybrid", "bamba", "bart", "bart with one layer that encodes",
    "bigbird_pegasus", "blenderbot", "blenderbot-small", "bloom", "camembert", "data2vec-text",
    "deepseek_v32", "deepseek_v4", "diffllama", "doge", "dots3_note", "dots3_note_text",
    "falcon alibi", "falcon_h1", "falcon_mamba", "glm_moe_dsa", "gpt_neo", "gpt_neo window 256",
    "granitemoehybrid", "hy_v4", "inkling2_text", "inkling_text", "jamba", "jetmoe",
    "kimi_linear", "lfm2", "lfm2_moe", "lfm3", "mamba", "mamba2", "marian", "mbart", "mvp",
    "nemotron_h", "olmo_hybrid", "pegasus", "plbart", "qwen3_5", "qwen3_5_moe",
    "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next", "qwen4_exp", "qwen4_exp_text", "roberta",
    "roberta-prelayernorm", "roformer", "trocr", "xlm-roberta", "xlm-roberta-xl", "xmod", "zamba",
    "zamba2", "zaya",
))  # fmt: skip

# Architectures without a cache, one text a pass.
UNCACHED = frozenset((
    "blt", "minimax", "moshi", "openai-gpt", "recurrent_gemma", "reformer", "rwkv", "xlm", "xlstm",
))  # fmt: skip

# Architectures that `Engine.load` refuses, because they also read later tokens.
REFUSED = frozenset(("cpmant", "prophetnet", "xlnet"))

# Architectures whose loading raises an unexpected error.
FAILING: frozenset[str] = frozenset()

# Architectures that transformers cannot build as a small model.
UNBUILT = frozenset(("gemma3n", "gemma4_assistant", "gemma4_unified_assistant", "musicgen",
                     "musicgen_melody"))  # fmt: skip

# The reason for a runner or a difference, if no message gives it.
_STEP = (
    "transformers raises time steps to `time_step_min` for several tokens (`mamba2_chunk_scan`), "
    "but not for a single token (`mamba2_selective_state_update`)"
)
REMARKS = {
    "blt": "its code does not cache the patches that its global layers read",
    "minimax": "it takes only its own `MiniMaxCache`",
    "nemotron_h": _STEP,
    "recurrent_gemma": "its modules hold the state, so texts cannot have their own",
    "xlstm": "it takes only its own `xLSTMCache`",
    "zamba2": _STEP,
}
# Architectures that differ by more than `CLOSE`, for the reason in `REMARKS`.
ABOVE = frozenset(("zamba2",))
