"""GGUF files for llama.cpp: of a small model with a token for each byte, and in its K formats.

`PYTHONPATH=tests python -m support.ggml_files` wrote tests/data/llama-q4_k.gguf. It needs
llama-cpp-python, whose quantiser is the only writer of these formats.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gguf
import torch
from support.vocabularies import byte_tokenizer
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
)

from benchmarks.gguf_file import write_gguf
from marith.scoring.weights.locate import WEIGHTS
from marith.scoring.weights.lora_files import read

Q4_K = Path(__file__).parents[1] / "data" / "llama-q4_k.gguf"
POCKET = str(WEIGHTS / "pocket")
# By format: total variation of a row computed alone and in a batch, and to the dequantised model.
FORMATS = {"f32": (0.004, 0.004), "f16": (0.004, 0.004), "q8_0": (0.06, 0.08), "q4_0": (0.06, 0.08)}
_Q4_K_M = 15  # LLAMA_FTYPE_MOSTLY_Q4_K_M


def apart(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the total variation of two rows of log-probabilities."""
    return float((one.exp() - other.exp()).abs().sum()) / 2


def chat(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def write_adapter(name: str, path: Path) -> str:
    """Write an adapter of pocket as llama.cpp's convert_lora_to_gguf.py would; return its path."""
    model = AutoModelForCausalLM.from_pretrained(POCKET)
    config, names = model.config, gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 64)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", 0.0)  # the updates are scaled already
    for layer, update in read(name, model).updates.items():
        up = update.up.t().contiguous()
        if count := heads.get(layer.rpartition(".")[2]):  # its order of a head's outputs
            halves = up.view(count, 2, up.shape[0] // count // 2, up.shape[1])
            up = halves.transpose(1, 2).reshape(up.shape).contiguous()
        place = f"{names.get_name(layer)}.weight"
        writer.add_tensor(f"{place}.lora_a", update.down.contiguous().numpy())
        writer.add_tensor(f"{place}.lora_b", up.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return str(path)


def byte_model() -> Any:
    """Return a random Llama of one layer, with rows of 256 numbers, as K formats need."""
    torch.manual_seed(4)
    config = LlamaConfig(
        vocab_size=258,
        hidden_size=256,
        intermediate_size=256,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=None,
        eos_token_id=257,
        initializer_range=0.1,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval()


def write_pocket(folder: Path, formats: Iterable[str]) -> Path:
    """Write `pocket` into a folder, a file `f16.gguf` for each format, and return the folder."""
    tokenizer = AutoTokenizer.from_pretrained(POCKET)
    model = AutoModelForCausalLM.from_pretrained(POCKET, dtype=torch.float32)
    for numbers in formats:
        write_gguf(model, folder / f"{numbers}.gguf", numbers, tokenizer)
    return folder


def write_q4_k(path: Path) -> None:
    """Write the model of `byte_model` in Q4_K_M, by llama.cpp's own quantiser."""
    import llama_cpp

    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "f32.gguf"
        write_gguf(byte_model(), plain, "f32", byte_tokenizer(end="<|end|>"), splits="gpt-2")
        options = llama_cpp.llama_model_quantize_default_params()
        options.ftype = _Q4_K_M
        assert not llama_cpp.llama_model_quantize(str(plain).encode(), str(path).encode(), options)


if __name__ == "__main__":
    Q4_K.parent.mkdir(exist_ok=True)
    write_q4_k(Q4_K)
    print(f"{Q4_K}: {Q4_K.stat().st_size} bytes")
