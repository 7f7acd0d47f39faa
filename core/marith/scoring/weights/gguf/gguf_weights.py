"""Load a model of transformers from a GGUF file, tensor by tensor."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.integrations.gguf.dequant import GGML_BLOCK, GGML_NAME, dequantize
from transformers.integrations.gguf.gguf_config_mapping import GGUF_CONFIG_ARCHS
from transformers.modeling_gguf_pytorch_utils import (
    TENSOR_PROCESSORS,
    TensorProcessor,
)

from marith.errors import ModelError
from marith.scoring.weights.gguf.gguf_config import ROTARY_TENSORS
from marith.scoring.weights.gguf.gguf_header import GGUFHeader, StoredTensor

# This number of elements is converted at a time, because it fits the processor's cache.
_PIECE = 2**17
_FLOATS = {
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F64": torch.float64,
}
# transformers converts these types with torch. The values are the numbers of the types.
_BY_TORCH = {name: number for number, name in GGML_NAME.items()}
# These types have a nibble for each element. The values are the bytes of a block before its first
# nibble, and the number that is subtracted from each nibble. marith converts them itself, because
# the gguf library takes 40 ns for an element, and transformers, which knows two of the types, 4 ns.
_NIBBLES = {"Q4_0": (2, 8), "Q4_1": (4, 0), "Q5_0": (6, 16), "Q5_1": (8, 0)}
# The names of these two options in malloc.h are M_TRIM_THRESHOLD and M_MMAP_THRESHOLD.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
# This optional dependency knows the formats of GGUF files.
_NEEDED = "gguf"
# A converter of transformers writes a head into this dict, and nothing reads it.
_NOWHERE: dict[str, Any] = {"tensors": {}}


def read_tensor(path: str, stored: StoredTensor) -> Tensor:
    """Read a tensor into new memory, in float32. Raises ModelError for an unsupported type."""
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
    """Return the number of elements of a block, and its number of bytes."""
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
        "cannot read; backend='llama.cpp' may"
    )


def _fill(values: Tensor, blocks: Any, kind: str) -> None:
    """Write the elements of blocks into `values` [count, elements]. `blocks` is [count, bytes]."""
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
    """Write the elements of blocks of 32 elements into `values`.

    A block begins with a scale. If `middle` is 0, the block's lowest value follows. In types of
    five bits, the fifth bits of all elements follow. The nibbles begin at byte `begin`.
    """
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


def require_library(name: str) -> None:
    """Raise ModelError if the package that knows the GGUF formats is not installed."""
    if find_spec(_NEEDED) is None:
        raise ModelError(
            f"{name!r} is a GGUF file, and reading one needs `pip install marith[gguf]`"
        )


def gguf_model(
    name: str, header: GGUFHeader, kind: Any, config: Any, **how: Any
) -> tuple[Any, Mapping[str, Any]]:
    """Return the model, and transformers' report on loading it.

    `kind` is a class of transformers; `how` is passed to its `from_pretrained`. Weights are
    converted to floats as they are read, so the peak of memory is the model plus one tensor.
    Mixtures of experts take more, because transformers joins their weights. Raises ModelError for a
    tensor without a place in the model.
    """
    if header.architecture in GGUF_CONFIG_ARCHS:
        path = Path(header.path)
        loaded: tuple[Any, Mapping[str, Any]]
        loaded = kind.from_pretrained(path.parent, gguf_file=path.name, config=config, **how)
        return loaded
    with torch.device("meta"):
        empty = kind(config)
    processor, names = _processor(header, config), places_of(header, empty)
    _require_places(name, header, names)
    tensors = _tensors(header, processor, names)
    loaded = kind.from_pretrained(None, config=config, state_dict=tensors, **how)
    return loaded


def _tensors(
    header: GGUFHeader, processor: TensorProcessor, names: Mapping[str, str]
) -> dict[str, Any]:
    """Return a tensor for each weight of the model. The tensors are read later.

    The weights of experts are read now, because they are joined.
    """
    tensors: dict[str, Any] = {}
    for one in header.tensors:
        unread = _UnreadTensor(header.path, one, processor)
        if one.name.endswith("_exps.weight"):
            joined: dict[str, Any] = {"tensors": tensors}
            processor.process(
                unread.values().numpy(),
                one.name,
                tensor_key_mapping=names,
                parsed_parameters=joined,
            )
        elif one.name in names:
            tensors[names[one.name]] = unread
    return tensors


def places_of(header: GGUFHeader, empty: Any) -> dict[str, str]:
    """Return the name of a weight in an empty model for each tensor name that a file may have.

    Some files name weights from inside the model that has the head, so a weight is looked up by the
    end of its name too. (`get_gguf_hf_weights_map` does the same, but makes the table of names
    again for every module.)
    """
    gguf, processor = import_module(_NEEDED), _processor(header, empty.config)
    kind = next((one for one, its in gguf.MODEL_ARCH_NAMES.items() if its == header.architecture))
    table = gguf.get_tensor_name_map(kind, empty.config.get_text_config().num_hidden_layers)
    weights = [*empty.state_dict()]
    places: dict[str, str] = {}
    for depth in range(max(weight.count(".") for weight in weights)):
        for weight in weights:
            parts = weight.split(".")
            if len(parts) <= depth:
                continue
            outside, inside = parts[:depth], processor.preprocess_name(".".join(parts[depth:]))
            name, dot, kind_of = inside.rpartition(".")
            if kind_of not in ("weight", "bias"):
                name, dot, kind_of = inside, "", ""
            before = "".join(f"{part}." for part in outside)
            if (found := table.get_name(name)) is not None:
                places.setdefault(found + dot + kind_of, before + inside)
            else:
                more: dict[str, str] = {}
                processor.perform_fallback_tensor_mapping(more, dot + kind_of, before, inside)
                places = more | places
    return {"output.weight": "lm_head.weight", **places}


def _processor(header: GGUFHeader, config: Any) -> TensorProcessor:
    kind: Any = TENSOR_PROCESSORS.get(header.architecture, TensorProcessor)
    made: TensorProcessor = kind(config.to_dict())
    return made


class _UnreadTensor:
    """A tensor of the file that is read, and converted to floats, when it is indexed."""

    def __init__(self, path: str, stored: StoredTensor, processor: TensorProcessor) -> None:
        self._path, self._stored, self._processor = path, stored, processor

    def __getitem__(self, _: object) -> Tensor:
        made = self._processor.process(
            self.values().numpy(), self._stored.name, parsed_parameters=_NOWHERE
        )
        return torch.from_numpy(np.ascontiguousarray(made.weights))

    def values(self) -> Tensor:
        """Return the file's values, in float32."""
        return read_tensor(self._path, self._stored)


def _require_places(name: str, header: GGUFHeader, names: Mapping[str, str]) -> None:
    held = {tensor.name for tensor in header.tensors} - ROTARY_TENSORS
    without = sorted(one for one in held if one not in names and not one.endswith("_exps.weight"))
    if without:
        raise ModelError(
            f"{name!r} has a tensor {without[0]!r} that transformers has no place for; "
            "load it with backend='llama.cpp'"
        )


@contextmanager
def returning_freed() -> Iterator[None]:
    """Return freed memory to the system at once while the block runs.

    glibc keeps freed blocks of up to 32 MB, and later allocations leave holes in these blocks. A
    model that is read tensor by tensor would take several times its size. After the block glibc
    keeps freed blocks again, by fixed thresholds that no longer adapt. With another C library
    nothing changes.
    """
    set_option = _mallopt()
    # glibc maps larger blocks one by one, and unmaps each block when it is freed.
    if set_option is not None:
        set_option(_MMAP_THRESHOLD, 2**20)
    try:
        yield
    finally:
        if set_option is not None:
            # These are the largest values to which glibc adapts its thresholds by itself.
            set_option(_MMAP_THRESHOLD, 2**25)
            set_option(_TRIM_THRESHOLD, 2**26)


@cache
def _mallopt() -> Callable[[int, int], int] | None:
    """Return mallopt of the C library, or None if the library is not glibc."""
    try:
        found: Callable[[int, int], int] = ctypes.CDLL(None).mallopt
    # A library without mallopt is not glibc.
    except (AttributeError, OSError, TypeError):
        return None
    return found
