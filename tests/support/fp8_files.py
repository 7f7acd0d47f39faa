"""Write a checkpoint with matrices in FP8, as those of DeepSeek and Qwen: no library writes one."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

_BLOCK = 64
_LARGEST = 448.0  # of float8_e4m3fn


def save_fp8(source: str, target: Path) -> None:
    """Write a model of a directory in blocks of 64 × 64, with a scale for each block."""
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    model.save_pretrained(target)
    AutoTokenizer.from_pretrained(source).save_pretrained(target)
    tensors = {}
    for name, weight in model.state_dict().items():
        if "proj" not in name:
            tensors[name] = weight.to(torch.bfloat16).contiguous()
            continue
        rows, columns = weight.shape
        blocks = weight.view(rows // _BLOCK, _BLOCK, columns // _BLOCK, _BLOCK)
        scales = blocks.abs().amax((1, 3)) / _LARGEST
        scaled = (blocks / scales[:, None, :, None]).reshape(rows, columns)
        tensors[name] = scaled.to(torch.float8_e4m3fn)
        tensors[f"{name}_scale_inv"] = scales
    if model.config.tie_word_embeddings:
        del tensors["lm_head.weight"]
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    stated = {
        "quant_method": "fp8",
        "activation_scheme": "dynamic",
        "weight_block_size": [_BLOCK, _BLOCK],
    }
    state_method(target, stated)


def state_method(target: Path, stated: object) -> None:
    """Write into a configuration how its weights are quantised."""
    file = target / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(config | {"quantization_config": stated}), encoding="utf-8")
