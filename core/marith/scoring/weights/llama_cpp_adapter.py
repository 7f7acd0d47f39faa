"""A LoRA over a GGUF file: a GGUF file of its own, or a directory of peft's, which is rewritten."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from marith.errors import ModelError
from marith.scoring.weights.ggml import GGMLAdapter, GGMLModel
from marith.scoring.weights.gguf_config import gguf_config
from marith.scoring.weights.gguf_header import read_header
from marith.scoring.weights.gguf_weights import places_of, require_library
from marith.scoring.weights.kinds import LANGUAGE_MODEL, class_of
from marith.scoring.weights.locate import GGUF, local_file, locate
from marith.scoring.weights.lora_files import Adapter, Update, read

# Whose matrices are as transformers has them, but for the order of outputs of Llama's heads.
_PLAIN = ("llama", "qwen2", "qwen3", "phi3", "gemma2", "gemma3", "starcoder2", "stablelm")


@dataclass(frozen=True, slots=True, eq=False)
class LlamaCppAdapter(Adapter):
    """An adapter in llama.cpp's memory, which is freed when nobody uses it."""

    held: GGMLAdapter | None = field(default=None, repr=False)
    size: int = 0

    @property
    def nbytes(self) -> int:
        """What its file weighs."""
        return self.size


def read_adapter(name: str, model: GGMLModel) -> Adapter:
    """The adapter, checked by llama.cpp too. Raises ModelError."""
    if isinstance(name, str) and name.lower().endswith(GGUF):
        return _loaded(name, local_file(name, locate(name)), model)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "adapter.gguf"
        _rewrite(name, model, path)
        return _loaded(name, path, model)


def _loaded(name: str, path: Path, model: GGMLModel) -> LlamaCppAdapter:
    digest, held = hashlib.sha256(path.read_bytes()).hexdigest(), GGMLAdapter(model, str(path))
    return LlamaCppAdapter(name, digest, MappingProxyType({}), {}, held, path.stat().st_size)


def _rewrite(name: str, model: GGMLModel, path: Path) -> None:
    """An adapter of peft's as a GGUF file. Raises ModelError for what cannot be written so."""
    require_library(name)
    header = read_header(model.path)
    if header.architecture not in _PLAIN:
        raise ModelError(
            f"the adapter {name!r} is not rewritten for the architecture {header.architecture!r}; "
            "llama.cpp's convert_lora_to_gguf.py makes a GGUF file of it, which is read as it is"
        )
    config = gguf_config(model.path, header)
    with torch.device("meta"):
        empty = class_of(LANGUAGE_MODEL, config)(config)
    adapter = read(name, empty)
    names = {layer: place for place, layer in places_of(header, empty).items()}
    writer = import_module("gguf").GGUFWriter(path, header.architecture)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", 0.0)  # the updates are scaled already
    for layer, update in adapter.updates.items():
        place = names[f"{layer}.weight"]
        down, up = _matrices(place, header.architecture, update, config)
        writer.add_tensor(f"{place}.lora_a", down)
        writer.add_tensor(f"{place}.lora_b", up)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _matrices(
    place: str, architecture: str, update: Update, config: Any
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """[rank, inputs] and [outputs, rank], in the file's order of each head's outputs."""
    up = update.up.t().contiguous()
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    count = heads.get(place.split(".")[-2])
    if architecture == "llama" and count:
        halves = up.view(count, 2, up.shape[0] // count // 2, up.shape[1])
        up = halves.transpose(1, 2).reshape(up.shape)
    return update.down.contiguous().numpy(), up.contiguous().numpy()
