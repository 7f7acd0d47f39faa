"""Small models of every architecture that was tried, and what marith makes of each.

`PYTHONPATH=tests .venv/bin/python -m support.architectures [name …]`
loads each of them twice, as a model and from a directory, and compares requests that run at the
same time with transformers' uncached logits.
"""

from __future__ import annotations

import copy
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from string import ascii_lowercase
from typing import Any, NamedTuple

import torch
from support.families import speaker
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

import marith

VOCAB = speaker("none").size
CLOSE = 1e-3
COMMON: dict[str, Any] = {
    "vocab_size": VOCAB, "bos_token_id": 0, "eos_token_id": None, "pad_token_id": 0,
}  # fmt: skip
LLAMA: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512,
}  # fmt: skip
HEADS = {**LLAMA, "head_dim": 16}
GPT = {"n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": 512}
BERT = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 128, "max_position_embeddings": 512, "is_decoder": True}  # fmt: skip
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 64}
SLIDING = {"sliding_window": 16}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16}
ROPE = {"rope_theta": 10000.0, "factor": 4.0}
NEO = {"hidden_size": 64, "num_layers": 4, "num_heads": 4, "intermediate_size": 128,
       "max_position_embeddings": 512, "attention_types": [[["global", "local"], 2]]}  # fmt: skip
LONG = {"rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
KINDS = ["linear_attention", "full_attention"] * 2

# Model type, sizes: those that are read with a cache.
CACHED: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", LLAMA),
    "llama rope llama3": ("llama", {**LLAMA, "rope_parameters": {
        **ROPE, "rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 128}}),
    "llama rope dynamic": ("llama", {**LLAMA, "rope_parameters": {**ROPE, "rope_type": "dynamic"}}),
    "qwen2": ("qwen2", LLAMA),
    "qwen2 rope yarn": ("qwen2", {**LLAMA, "rope_parameters": {
        **ROPE, "rope_type": "yarn", "original_max_position_embeddings": 128}}),
    "qwen2 window off": ("qwen2", {**LLAMA, **SLIDING, "use_sliding_window": False}),
    "qwen3": ("qwen3", HEADS),
    "qwen3_moe": ("qwen3_moe", {**HEADS, **EXPERTS, "num_experts": 4}),
    "qwen2_moe": ("qwen2_moe", {**LLAMA, **EXPERTS, "num_experts": 4,
                                "shared_expert_intermediate_size": 64}),
    "mixtral": ("mixtral", {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "olmoe": ("olmoe", {**LLAMA, "num_experts": 4, "num_experts_per_tok": 2}),
    "phimoe": ("phimoe", {**LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "jetmoe": ("jetmoe", {**LLAMA, "kv_channels": 16, "num_local_experts": 2,
                          "num_experts_per_tok": 1}),
    "deepseek_v3": ("deepseek_v3", {
        **LLAMA, "num_key_value_heads": 4, "n_routed_experts": 4, "num_experts_per_tok": 2,
        "n_group": 1, "topk_group": 1, "moe_intermediate_size": 32, "n_shared_experts": 1,
        "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
        "v_head_dim": 16, "first_k_dense_replace": 1}),
    "gemma": ("gemma", HEADS),
    "phi": ("phi", LLAMA),
    "phi3": ("phi3", LLAMA),
    "gpt2": ("gpt2", GPT),
    "gpt_bigcode": ("gpt_bigcode", GPT),
    "gpt_neox": ("gpt_neox", LLAMA),
    "gptj": ("gptj", {**GPT, "rotary_dim": 8}),
    "codegen": ("codegen", {**GPT, "rotary_dim": 8}),
    "opt": ("opt", {**LLAMA, "ffn_dim": 128, "word_embed_proj_dim": 64}),
    "xglm": ("xglm", {"d_model": 64, "num_layers": 4, "attention_heads": 4, "ffn_dim": 128,
                      "max_position_embeddings": 512}),
    "biogpt": ("biogpt", LLAMA),
    "ctrl": ("ctrl", {**GPT, "dff": 128}),
    "mpt": ("mpt", {"d_model": 64, "n_heads": 4, "n_layers": 4, "max_seq_len": 512}),
    "falcon rope": ("falcon", {**LLAMA, "alibi": False, "multi_query": True}),
    **{name: (name, LLAMA) for name in (
        "granite", "olmo2", "stablelm", "cohere", "smollm3", "nemotron", "persimmon", "apertus",
        "arcee", "bitnet", "diffllama", "doge", "ernie4_5")},
    **{name: (name, HEADS) for name in ("helium", "hunyuan_v1_dense", "seed_oss")},
    "glm4": ("glm4", {**HEADS, "eos_token_id": 1}),
    "bert": ("bert", BERT),
    "big_bird": ("big_bird", {**BERT, "attention_type": "block_sparse", "block_size": 4,
                              "num_random_blocks": 1}),
    "phi3 longrope, short": ("phi3", {**LLAMA, "max_position_embeddings": 512,
        "original_max_position_embeddings": 512,
        "rope_parameters": {**ROPE, **LONG, "original_max_position_embeddings": 512}}),
    "gemma3 with images": ("gemma3", {
        "text_config": {**COMMON, **HEADS, "sliding_window": 512, "query_pre_attn_scalar": 16},
        "vision_config": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1,
                          "num_attention_heads": 2, "image_size": 28, "patch_size": 14},
        "mm_tokens_per_image": 4, "image_token_index": 257, "boi_token_index": 256,
        "eoi_token_index": 255}),
    "gemma2": ("gemma2", {**HEADS, **SLIDING, "query_pre_attn_scalar": 16}),
    "gemma3_text": ("gemma3_text", {**HEADS, **SLIDING, "query_pre_attn_scalar": 16,
                                    "layer_types": ["sliding_attention"] * 3 + ["full_attention"]}),
    "mistral": ("mistral", {**HEADS, **SLIDING}),
    "phi3 window": ("phi3", {**LLAMA, **SLIDING}),
    "qwen2 window on": ("qwen2", {**LLAMA, **SLIDING, "use_sliding_window": True,
                                  "max_window_layers": 2}),
    "starcoder2": ("starcoder2", {**LLAMA, **SLIDING}),
    "olmo3": ("olmo3", {**LLAMA, **SLIDING}),
    "exaone4": ("exaone4", {**LLAMA, **SLIDING}),
    **{name: (name, {**HEADS, **SLIDING}) for name in ("ministral", "cohere2", "vaultgemma")},
    "gpt_oss": ("gpt_oss", {**HEADS, **SLIDING, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "llama4_text": ("llama4_text", {**HEADS, "num_local_experts": 2, "num_experts_per_tok": 1,
                                    "attention_chunk_size": 16, "intermediate_size_mlp": 128}),
    "modernbert-decoder": ("modernbert-decoder", {**LLAMA, "local_attention": 16,
                                                  "global_attn_every_n_layers": 2}),
}  # fmt: skip

# Those that are read with a cache of their own for each lane, one pass a lane.
LANEWISE: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt_neo": ("gpt_neo", {**NEO, "window_size": 16}),
    "gpt_neo window 256": ("gpt_neo", {**NEO, "window_size": 256}),
    "qwen3_next": ("qwen3_next", {
        **HEADS, **EXPERTS, "num_experts": 4, "shared_expert_intermediate_size": 64,
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
        "linear_value_head_dim": 16}),
    "jamba": ("jamba", {**LLAMA, "num_experts": 2, "attn_layer_period": 2, "attn_layer_offset": 1,
                        "mamba_d_state": 8, "use_mamba_kernels": False}),
    "granitemoehybrid": ("granitemoehybrid", {
        **LLAMA, **MAMBA, "num_local_experts": 2, "num_experts_per_tok": 1,
        "shared_intermediate_size": 64, "layer_types": ["mamba", "attention"] * 2}),
    "falcon_h1": ("falcon_h1", {**HEADS, **MAMBA, "mamba_d_ssm": 128}),
    "lfm2": ("lfm2", {**LLAMA, "full_attn_idxs": [2]}),
    "mamba": ("mamba", {"hidden_size": 64, "num_hidden_layers": 4, "state_size": 8}),
    "mamba2": ("mamba2", {"hidden_size": 64, "num_hidden_layers": 4, "state_size": 16,
                          "num_heads": 8, "head_dim": 16, "n_groups": 2, "expand": 2}),
    "bloom": ("bloom", {"hidden_size": 64, "n_layer": 4, "n_head": 4}),
    "falcon alibi": ("falcon", {**LLAMA, "alibi": True, "multi_query": False,
                                "new_decoder_architecture": False}),
    "roberta": ("roberta", {**BERT, "max_position_embeddings": 514}),
}  # fmt: skip

# Those that are read without one, text by text.
UNCACHED: dict[str, tuple[str, dict[str, Any]]] = {
    "phi3 longrope": ("phi3", {**LLAMA, "original_max_position_embeddings": 64,
        "rope_parameters": {**ROPE, **LONG, "original_max_position_embeddings": 64}}),
    "phi3 longrope, long": ("phi3", {**LLAMA, "max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096, "sliding_window": 262144,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [1.5] * 8},
        "rope_theta": 10000.0}),
    "minimax": ("minimax", {**HEADS, "num_local_experts": 2, "num_experts_per_tok": 1,
                            "layer_types": KINDS, "block_size": 16}),
    "bamba": ("bamba", {**LLAMA, **MAMBA, "attn_layer_indices": [2]}),
    "nemotron_h": ("nemotron_h", {
        **HEADS, "hybrid_override_pattern": "M*M-", "mamba_num_heads": 8, "mamba_head_dim": 16,
        "ssm_state_size": 16, "n_groups": 2}),
    "recurrent_gemma": ("recurrent_gemma", {
        **HEADS, "attention_window_size": 16, "lru_width": 64, "num_hidden_layers": 3,
        "block_types": ["recurrent", "recurrent", "attention"]}),
    "xlstm": ("xlstm", {"hidden_size": 64, "num_blocks": 2, "num_heads": 4}),
    "rwkv": ("rwkv", {"hidden_size": 64, "num_hidden_layers": 4, "attention_hidden_size": 64,
                      "context_length": 512, "rescale_every": 2}),
    "openai-gpt": ("openai-gpt", GPT),
    "reformer": ("reformer", {
        "hidden_size": 64, "num_attention_heads": 4, "attention_head_size": 16,
        "feed_forward_size": 128, "attn_layers": ["local", "local"], "axial_pos_embds": False,
        "local_attn_chunk_length": 16, "is_decoder": True, "max_position_embeddings": 512}),
    "xlm": ("xlm", {"emb_dim": 64, "n_layers": 2, "n_heads": 4, "causal": True, "pad_index": 0}),
}  # fmt: skip
ALL = {**CACHED, **LANEWISE, **UNCACHED}


class Verdict(NamedTuple):
    """Whether a model ran with a cache, and how far its answers were off."""

    cached: bool
    worst: float
    said: str


def build(name: str) -> Any:
    """The architecture's small model, with random weights that are always the same."""
    model_type, sizes = ALL[name]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        config = AutoConfig.for_model(model_type, **{**COMMON, **sizes})
        model = AutoModelForCausalLM.from_config(config).eval()
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.normal_(std=0.15)
    return model


def endless() -> Any:
    """A tokenizer of single letters, without a token that ends a text."""
    tokenizer = copy.copy(speaker("none").tokenizer)
    tokenizer.eos_token = None
    return tokenizer


def words(count: int, seed: int) -> str:
    """A text of so many tokens."""
    return "".join(ascii_lowercase[(i * i + seed * i + 3) % 26] for i in range(count))


def uncached(model: Any, tokens: Sequence[int]) -> Tensor:
    """The model's own log-softmax after each prefix, [length, vocab], by transformers alone."""
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([list(tokens)]), use_cache=False).logits
    return torch.log_softmax(logits[0].float(), dim=-1)


def judge(model: Any, folder: str = "", long: int = 90, runs: int = 4, **options: Any) -> Verdict:
    """Load a model, or what the folder holds of it, and compare it with itself uncached."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if folder:
            engine = marith.Engine.load(folder, device="cpu", dtype="float32", **options)
        else:
            engine = marith.Engine.load(model, tokenizer=endless(), **options)
    said = [str(one.message) for one in caught if "slower" in str(one.message)]
    prompt, system = words(6, 5), words(long, 2)
    a, b = engine.encode(prompt), engine.encode(f"{system}\n{prompt}")

    def off(seed: int) -> float:
        out = engine.generate(
            prompt, "0.6*M + 0.4*x", {"x": system}, marith.Sampling(seed=seed, temperature=0.8),
            marith.Stop(8 + 3 * seed), speculation="auto" if seed % 2 else None, logprobs=0,
        )  # fmt: skip
        own = list(out.tokens)
        first, second = uncached(model, a + own)[len(a) - 1 :], uncached(model, b + own)
        want = torch.log_softmax(0.6 * first + 0.4 * second[len(b) - 1 :], dim=-1)
        pairs = zip(range(len(own)), own, out.logprobs or (), strict=True)
        return max((abs(float(want[i, token]) - one.logprob) for i, token, one in pairs), default=0)

    with engine, ThreadPoolExecutor(runs) as pool:
        worst = list(pool.map(off, range(runs)))
        worst.append(float((engine.next_logprobs(prompt) - uncached(model, a)[-1]).abs().max()))
        got = torch.tensor(engine.score(prompt, b[:long]))
        want = uncached(model, a + b[:long])[len(a) - 1 : -1].gather(1, torch.tensor([b[:long]]).T)
        worst.append(float((got - want[:, 0]).abs().max()))
        return Verdict(not engine._registry.base.runner.plain, max(worst), " ".join(said))


def main(names: Sequence[str]) -> int:
    """A line for each architecture; how many are wrong, or not as the tables say."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    failed = 0
    for name in names or ALL:
        started = time.perf_counter()
        try:
            model = build(name)
            with tempfile.TemporaryDirectory() as folder:
                model.save_pretrained(folder)
                endless().save_pretrained(folder)
                verdicts = [judge(model, place, long=300) for place in ("", folder)]
            wrong = max(one.worst for one in verdicts)
            right = wrong < CLOSE and all(one.cached == (name not in UNCACHED) for one in verdicts)
            note = (
                f"{'cached' if verdicts[0].cached else 'uncached'}, {wrong:.1e}. {verdicts[0].said}"
            )
        except Exception as error:
            right, note = False, f"{type(error).__name__}: {error}"
        failed += not right
        seconds = time.perf_counter() - started
        print(f"{'ok' if right else 'WRONG':5} {name:22} {seconds:5.1f} s  {note}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
