"""Read the header of a GGUF file: its metadata, and the list of its tensors.

transformers' reader reads the header, without the tensors. The format is described in gguf.md of
https://github.com/ggml-org/ggml.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Any

from marith.errors import ModelError
from marith.scoring.weights.footprint import Footprint

_MOST_DIMENSIONS = 4
# Longer arrays are dropped. An array with one number for each layer is kept, and an array with one
# number for each token of the vocabulary is dropped.
_MOST_LISTED = 4096
_PART = re.compile(r"(.*-)\d{5}(-of-(\d{5})\.gguf)")
# These are the names of ggml's types (enum ggml_type).
_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1",
    10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS",
    17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS",
    28: "F64", 29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor of the file: its shape in torch's order, its type, and its offset in bytes."""

    name: str
    shape: tuple[int, ...]
    kind: str
    start: int

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class GGUFHeader:
    """The metadata of a file, and the list of its tensors.

    For an array of texts, and for a long array of numbers, `metadata` has only the length.
    """

    path: str
    metadata: Mapping[str, Any]
    tensors: tuple[StoredTensor, ...]
    nbytes: int

    @property
    def architecture(self) -> str:
        """The kind of model, by llama.cpp's name."""
        return str(self.metadata["general.architecture"])

    def of_model(self, key: str, default: Any = None) -> Any:
        """Return a value that the file states for the model's own architecture, or `default`."""
        return self.metadata.get(f"{self.architecture}.{key}", default)

    def number(self, key: str, default: int | None = None) -> int | None:
        """Return a value of the model's architecture if it is a whole number of at least 1.

        Otherwise return `default`. If each layer has its own number, return the largest.
        """
        value = self.of_model(key)
        if isinstance(value, list):
            value = max((one for one in value if isinstance(one, int)), default=None)
        whole = isinstance(value, int) and not isinstance(value, bool) and value > 0
        return value if whole else default

    def with_texts(self, keys: Collection[str]) -> dict[str, Any]:
        """Return the metadata, with the whole arrays of texts whose names are in `keys`.

        Raises ValueError for a text that is not UTF-8.
        """
        with _mapped(self.path) as data:
            metadata: dict[str, Any] = _reader()._read_metadata(data, self.path, keys)[0]
            return metadata

    @property
    def format(self) -> str:
        """The type that most weights are stored in, such as "Q4_K"."""
        sizes = Counter[str]()
        for tensor in self.tensors:
            sizes[tensor.kind] += tensor.size
        return max(sizes, key=lambda kind: sizes[kind], default="")

    @property
    def weights(self) -> int:
        """The number of elements of all tensors."""
        return sum(tensor.size for tensor in self.tensors)

    @property
    def footprint(self) -> Footprint:
        """The memory that the model takes, for each way of loading it."""
        shapes = {tensor.name: tensor.shape for tensor in self.tensors}
        config = {
            "vocab_size": shapes.get("token_embd.weight", (0,))[0],
            "hidden_size": self.number("embedding_length"),
            "num_hidden_layers": self.number("block_count"),
            "num_attention_heads": self.number("attention.head_count"),
            "num_key_value_heads": self.number("attention.head_count_kv"),
            "head_dim": self.number("attention.key_length"),
            "tie_word_embeddings": "output.weight" not in shapes,
        }
        return Footprint.of(self.weights, config)

    @property
    def files(self) -> list[Path]:
        """The files of the model that are on this machine. A model may have several files."""
        path = Path(self.path)
        files = (path.parent / name for name in file_parts(path.name))
        return [file for file in files if file.is_file()]

    @property
    def all_bytes(self) -> int:
        """The bytes of all files together."""
        return sum(file.stat().st_size for file in self.files)

    @property
    def parts(self) -> int:
        """The number of files of the model."""
        count = self.metadata.get("split.count")
        return count if isinstance(count, int) and count > 0 else 1


def file_parts(file: str) -> list[str]:
    """Return the names of all files of a model that is split into files, by the name of one file.

    For a file that is not a part, return its name alone.
    """
    match = _PART.fullmatch(file)
    if match is None:
        return [file]
    return [f"{match[1]}{i:05}{match[2]}" for i in range(1, int(match[3]) + 1)]


def read_header(path: str | Path) -> GGUFHeader:
    """Return the header of a file. Raises ModelError for an invalid or incomplete GGUF file."""
    file = Path(path)
    try:
        state = file.stat()
        return _read(str(file), state.st_size, state.st_mtime_ns)
    # A ModelError is an OSError too, so it must be caught first.
    except ModelError:
        raise
    except OSError as error:
        raise ModelError(f"cannot read {str(path)!r}: {error.strerror or error}") from error


# The size and the time of the last change are arguments so that a changed file is read again.
@lru_cache(maxsize=8)
def _read(path: str, size: int, _changed: int) -> GGUFHeader:
    try:
        with _mapped(path) as data:
            if data[:4] != b"GGUF":
                raise ModelError(f"{path!r} is not a GGUF file: it does not begin with GGUF")
            metadata, count, place = _reader()._read_metadata(data, path)
            listed, place = _reader()._read_tensor_table(data, count, place)
    except struct.error as error:
        ends = f"it has {size} bytes, and ends within its header"
        raise ModelError(f"{path!r} is not a complete GGUF file: {ends}; copy it again") from error
    except (ValueError, MemoryError, OverflowError) as error:
        raise ModelError(f"{path!r} is not a complete GGUF file: {error}") from error
    deep = next((name for name, shape, *_ in listed if len(shape) > _MOST_DIMENSIONS), None)
    if deep is not None:
        raise ModelError(
            f"{path!r} is not a valid GGUF file: {deep[:60]!r} has too many dimensions"
        )
    metadata = {
        key: len(value) if isinstance(value, list) and len(value) > _MOST_LISTED else value
        for key, value in metadata.items()
    }
    step = metadata.get("general.alignment", 32)
    if not isinstance(step, int) or step < 1:
        raise ModelError(f"{path!r} is not a valid GGUF file: its alignment is {step!r}")
    # The tensors begin at the first multiple of the alignment after the header.
    begin = -(-place // step) * step
    tensors = tuple(
        StoredTensor(name, shape, _TYPES.get(kind, f"type {kind}"), begin + offset)
        for name, shape, kind, offset in listed
    )
    if begin > size or any(tensor.start > size for tensor in tensors):
        raise ModelError(f"{path!r} is not a complete GGUF file: it ends before its last tensor")
    return GGUFHeader(path, metadata, tensors, size)


def _mapped(path: str) -> mmap.mmap:
    with Path(path).open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _reader() -> Any:
    """Return transformers' reader. It is imported with the first file, because it imports torch.

    Its public functions refuse files with types for which transformers has no kernel, such as Q5_0.
    """
    return import_module("transformers.integrations.gguf.reader")
