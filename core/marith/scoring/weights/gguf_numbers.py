"""The numbers of a GGUF file's tensors, in float32, whatever they are stored as."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.integrations.gguf.dequant import GGML_BLOCK, GGML_NAME, dequantize

from marith.errors import ModelError
from marith.scoring.weights.gguf_header import StoredTensor

_PIECE = 2**17  # numbers at a time, which the processor's cache holds
_FLOATS = {
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F64": torch.float64,
}
_BY_TORCH = {name: number for number, name in GGML_NAME.items()}  # by transformers
# In which a number has a nibble; the bytes before the first, and what is subtracted from each. The
# library's numpy takes 40 ns a number for them, and transformers 4 for two of them.
_NIBBLES = {"Q4_0": (2, 8), "Q4_1": (4, 0), "Q5_0": (6, 16), "Q5_1": (8, 0)}


def read_tensor(path: str, stored: StoredTensor) -> Tensor:
    """Read a tensor into memory of its own. Raises ModelError for an unsupported type."""
    per_block, block = _block(stored)
    blocks = stored.size // per_block
    data = np.memmap(path, np.uint8, "r", stored.start, (blocks, block))
    values = torch.empty(blocks, per_block)
    step = max(1, _PIECE // per_block)
    for start in range(0, blocks, step):
        piece = np.array(data[start : start + step])
        try:
            _fill(values[start : start + step], piece, stored.kind)
        except NotImplementedError:
            raise _refused(stored) from None
    return values.reshape(stored.shape)


def _block(stored: StoredTensor) -> tuple[int, int]:
    """How many numbers a block has, and how many bytes."""
    if stored.kind in _FLOATS:
        return 1, _FLOATS[stored.kind].itemsize
    if stored.kind in _BY_TORCH:
        return GGML_BLOCK[_BY_TORCH[stored.kind]]
    gguf = import_module("gguf")
    kinds = gguf.GGMLQuantizationType
    if stored.kind not in kinds.__members__:
        raise _refused(stored)
    sizes: tuple[int, int] = gguf.GGML_QUANT_SIZES[kinds[stored.kind]]
    return sizes


def _refused(stored: StoredTensor) -> ModelError:
    return ModelError(
        f"the tensor {stored.name!r} is stored as {stored.kind}, which the installed gguf "
        "does not read; backend='llama.cpp' may"
    )


def _fill(values: Tensor, blocks: Any, kind: str) -> None:
    """Write the numbers [count, numbers] of some blocks [count, bytes]."""
    raw = torch.from_numpy(blocks)
    if kind in _FLOATS:
        values[:] = raw.view(_FLOATS[kind])
    elif kind in _NIBBLES:
        _fill_nibbles(values, raw, *_NIBBLES[kind])
    elif kind in _BY_TORCH:
        values[:] = dequantize(raw, _BY_TORCH[kind]).view_as(values)
    else:
        quants = import_module("gguf.quants")
        made = quants.dequantize(blocks, import_module("gguf").GGMLQuantizationType[kind])
        values[:] = torch.from_numpy(made)


def _fill_nibbles(values: Tensor, raw: Tensor, begin: int, middle: int) -> None:
    """Blocks of 32: a scale, the lowest value unless there is a `middle`, fifth bits, nibbles."""
    low, high = values[:, :16], values[:, 16:]
    low[:] = raw[:, begin:] & 15
    high[:] = raw[:, begin:] >> 4
    if begin in (6, 8):
        bits = torch.arange(8, dtype=torch.uint8)
        fifth = (raw[:, begin - 4 : begin, None] >> bits) & 1
        values.add_((fifth << 4).view(len(raw), 32))
    values.sub_(middle).mul_(raw[:, :2].view(torch.float16).float())
    if not middle:
        values.add_(raw[:, 2:4].view(torch.float16).float())
