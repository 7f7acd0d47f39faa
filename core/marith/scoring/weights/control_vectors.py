"""Read and write control vectors: GGUF files with a direction for each of some decoder layers.

The number N in the tensor name `direction.N` is a decoder layer, counted from 0, and the direction
is added to the hidden states that leave this layer, `hidden_states[N + 1]` of transformers. repeng
computes and adds its directions there. llama.cpp adds `direction.N` there too (`build_cvec` after
the residual of layer N), but it has no place for a direction of layer 0, and refuses it. Files of
llama.cpp's own cvector-generator number a direction that was computed after layer N as N + 1. They
are applied as llama.cpp applies them: after layer N + 1.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NoReturn

import numpy as np
import torch
from torch import Tensor
from transformers import CONFIG_MAPPING

from marith.errors import ModelError, shown
from marith.scoring.weights.gguf.gguf_header import GGUFHeader, StoredTensor, read_header
from marith.scoring.weights.locate import GGUF, HUB_FILE, local_file
from marith.scoring.weights.lora_files import Adapter
from marith.scoring.weights.shared_weights import nbytes

ARCHITECTURE = "controlvector"
HINT = f"{ARCHITECTURE}.model_hint"
_COUNT = f"{ARCHITECTURE}.layer_count"
_DIRECTION = re.compile(r"direction\.(0|[1-9][0-9]{0,5})", re.ASCII)
# A file's tensors begin at multiples of this number of bytes.
_ALIGNMENT = 32
# The types of values in a GGUF file, and the type of a tensor in float32.
_UINT32, _STRING, _F32 = 4, 8, 0
# llama.cpp has one architecture for each of these types and another type, and its files name it.
_SAME = {
    "mistral": "llama",
    "mixtral": "llama",
    "internlm3": "llama",
    "ministral3": "mistral3",
    "olmo3": "olmo2",
    "falconmamba": "mamba",
    "granitemoeshared": "granitemoe",
    "qwen25vl": "qwen2vl",
}


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ControlVector:
    """A control vector in memory: directions [width] in float32, by number of decoder layer.

    Layers count from 0, and a direction is added to the hidden states after its layer. `digest` is
    a hash of the directions. `model_hint` is the type of the model that the vector was made for; ""
    if the file does not state it.
    """

    name: str
    digest: str
    model_hint: str
    directions: Mapping[int, Tensor] = field(compare=False, repr=False)

    @property
    def nbytes(self) -> int:
        """The number of bytes of the directions."""
        return nbytes(self.directions.values())


@dataclass(frozen=True, slots=True)
class VectorShape:
    """The shape that a control vector must fit: the model's decoder layers, width and types."""

    layers: int
    width: int
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, model: Any) -> VectorShape:
        """Return what a vector for a model of transformers must fit."""
        text = model.config.get_text_config()
        kinds = dict.fromkeys((model.config.model_type, text.model_type))
        layers = getattr(text, "num_hidden_layers", None) or 0
        return cls(int(layers), int(getattr(text, "hidden_size", None) or 0), (*kinds,))


def read(name: str, model: Any) -> ControlVector:
    """Return the control vector in the GGUF file `name`, checked against a model of transformers.

    `name` is a path, or "owner/name:file.gguf" on the hub. Raises ModelError if the file cannot be
    read, is not a control vector, or does not fit the model.
    """
    return read_for(name, VectorShape.of(model))


def read_for(name: str, fits: VectorShape) -> ControlVector:
    """Return the control vector in the GGUF file `name`, checked against the shape of a model."""
    header = read_header(_located(name))
    architecture = header.metadata.get("general.architecture")
    if architecture != ARCHITECTURE:
        _refuse(name, f"has the architecture {shown(architecture)}, not {ARCHITECTURE!r}")
    hint = header.metadata.get(HINT, "")
    if not isinstance(hint, str):
        _refuse(name, f"has {HINT}={hint!r:.60}; it must be a name")
    if not _may_be(hint, fits.kinds):
        _refuse(name, f"was made for a model of type {hint!r:.60}, not {fits.kinds[0]!r}")
    stored = {_layer(name, one, fits): one for one in header.tensors}
    if not stored:
        _refuse(name, "holds no directions")
    if len(stored) < len(header.tensors):
        _refuse(name, "has two directions for one layer")
    directions, digest = {}, hashlib.sha256()
    for layer in sorted(stored):
        directions[layer] = _values(name, header, stored[layer])
        digest.update(f"{layer}:".encode() + directions[layer].numpy().tobytes())
    return ControlVector(name, digest.hexdigest(), hint, MappingProxyType(directions))


def steered(
    lora: Adapter | None,
    vectors: Sequence[tuple[ControlVector, float]],
    positions: Literal["all", "answer"],
    layers: Sequence[str],
    dtype: torch.dtype = torch.float32,
) -> Adapter:
    """Return the adapter of a term: its LoRA, if any, and the sum of its vectors by strength.

    `layers` are the names of the model's decoder layers. A vector of strength 0 adds nothing.
    Raises ModelError for a sum that is not finite in `dtype`, the type of the hidden states.
    """
    shifts: dict[str, Tensor] = {}
    for vector, strength in vectors:
        for layer, direction in vector.directions.items() if strength else ():
            shift, before = strength * direction, shifts.get(layers[layer])
            shifts[layers[layer]] = shift if before is None else before + shift
            if not bool(shifts[layers[layer]].to(dtype).isfinite().all()):
                kind = str(dtype).removeprefix("torch.")
                _refuse(vector.name, f"with strength {strength!r} is too large for {kind}")
    parts = [f"{strength!r}*{vector.name}" for vector, strength in vectors]
    digests = [f"{strength!r}*{vector.digest}" for vector, strength in vectors]
    if lora is not None:
        parts, digests = [lora.name, *parts], [lora.digest, *digests]
    return Adapter(
        " + ".join(parts),
        hashlib.sha256("+".join([*digests, positions]).encode()).hexdigest(),
        {} if lora is None else lora.config,
        {} if lora is None else lora.updates,
        shifts,
        lora,
        positions,
    )


def write(path: Path | str, directions: Mapping[int, Tensor], model_hint: str) -> None:
    """Write a control vector as a GGUF file, which llama.cpp and repeng read.

    `directions` are by number of decoder layer, counted from 0: see `ControlVector`. `model_hint`
    is the model's type, `config.model_type`. llama.cpp refuses a direction of layer 0.
    """
    arrays = {f"direction.{n}": one.float().cpu().numpy() for n, one in directions.items()}
    pairs = [
        _text("general.architecture") + struct.pack("<I", _STRING) + _text(ARCHITECTURE),
        _text(HINT) + struct.pack("<I", _STRING) + _text(model_hint),
        _text(_COUNT) + struct.pack("<II", _UINT32, len(arrays)),
    ]
    table, data = b"", b""
    for name, array in arrays.items():
        table += _text(name) + struct.pack("<IQIQ", 1, array.size, _F32, len(data))
        data += _padded(array.astype("<f4").tobytes())
    begin = b"GGUF" + struct.pack("<IQQ", 3, len(arrays), len(pairs))
    Path(path).write_bytes(_padded(begin + b"".join(pairs) + table) + data)


def _located(name: str) -> Path:
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if HUB_FILE.fullmatch(name):
        return local_file(name, name)
    raise ModelError(
        f"there is no control vector {name!r}; it is a GGUF file, or one on the hub such as "
        f"'owner/name:file{GGUF}'"
    )


def _layer(name: str, stored: StoredTensor, fits: VectorShape) -> int:
    """Return the layer of a direction. Raises ModelError for a tensor that does not fit."""
    match = _DIRECTION.fullmatch(stored.name)
    if match is None:
        _refuse(name, f"holds {stored.name!r:.60}, which is not direction.N for a layer N")
    layer = int(match[1])
    if layer >= fits.layers:
        last = f"the layers of this model are 0 to {fits.layers - 1}"
        what = f"it has a direction for layer {layer}"
        _refuse(name, f"was made for another model: {what}, and {last}")
    if len(stored.shape) != 1 or stored.kind != "F32":
        what = f"{list(stored.shape)} in {stored.kind}"
        _refuse(name, f"stores {stored.name} as {what}; a direction is one row in F32")
    if stored.size != fits.width:
        width = f"its directions have {stored.size} numbers, and this model's states {fits.width}"
        _refuse(name, f"was made for another model: {width}")
    return layer


def _values(name: str, header: GGUFHeader, stored: StoredTensor) -> Tensor:
    if stored.start + 4 * stored.size > header.nbytes:
        _refuse(name, f"ends within {stored.name}; copy the file again")
    try:
        with Path(header.path).open("rb") as file:
            values = np.fromfile(file, "<f4", stored.size, offset=stored.start)
    except OSError as error:
        raise ModelError(f"cannot read {name!r}: {error.strerror or error}") from error
    if values.size < stored.size or not np.isfinite(values).all():
        _refuse(name, f"has a value that is not a finite number in {stored.name}")
    return torch.from_numpy(values.astype(np.float32))


def _may_be(hint: str, kinds: Sequence[str]) -> bool:
    """Return False if `hint` is another type of model than all of `kinds`.

    llama.cpp has names of its own for many types, such as command-r for cohere. So two names are
    told apart only if both are types of transformers.
    """
    families = {*map(_family, kinds)}
    known = {*map(_family, CONFIG_MAPPING)}
    return _family(hint) in families or _family(hint) not in known or not families <= known


def _family(kind: str) -> str:
    """Return one spelling of a type: llama.cpp and transformers spell many types differently."""
    letters = re.sub(r"[^a-z0-9]", "", kind.lower().removesuffix("_text"))
    return _SAME.get(letters, letters)


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _padded(raw: bytes) -> bytes:
    return raw + bytes(-len(raw) % _ALIGNMENT)


def _refuse(name: str, why: str) -> NoReturn:
    raise ModelError(f"the control vector {name!r} {why}")
