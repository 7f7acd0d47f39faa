"""Compare the size of a checkpoint's model with its files and the free memory, before loading."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME
from transformers.utils.hub import cached_file

from marith.errors import ModelError
from marith.scoring.free_memory import bytes_text, free_memory
from marith.scoring.weights.footprint import Footprint
from marith.scoring.weights.placing import Placement

_REPEATED = re.compile(r"(layers?|blocks?|depth)$")
# A configuration may always list this number of layers, because the model may have fewer.
_LEAST = 512
# A byte holds at most this number of weights, of one bit each.
_PER_BYTE = 8


def check_size(name: str, where: str, revision: str | None, kind: Any, config: Any) -> int:
    """Return the number of weights of a model, by its configuration.

    Raises ModelError for a configuration that asks for more than the files can hold: each layer has
    at least one tensor, and each weight at least one bit.
    """
    tensors, size = _stored(where, revision)
    return check_held(name, tensors, size, kind, config)


def check_held(name: str, tensors: int, size: int, kind: Any, config: Any) -> int:
    """Return the number of weights of a model whose files hold `tensors` tensors in `size` bytes.

    `kind` makes a model from a configuration. Raises ModelError as `check_size` does.
    """
    for key, count in _counts(config.to_dict()):
        if count > max(tensors, _LEAST):
            raise ModelError(
                f"the configuration of {name!r} asks for {count} {key}, and its files hold "
                f"{tensors} tensors"
            )
    # On the meta device, weights have shapes and no memory.
    with torch.device("meta"):
        empty = kind.from_config(config)
    weights = sum(int(weight.numel()) for weight in empty.parameters())
    if weights > _PER_BYTE * size:
        raise ModelError(
            f"the configuration of {name!r} asks for {weights} weights, and its files hold "
            f"{size} bytes"
        )
    return weights


def require_memory(
    name: str, footprint: Footprint, device: torch.device, dtype: torch.dtype, placement: Placement
) -> None:
    """Raise ModelError for weights larger than the free memory. The error names smaller choices."""
    # accelerate places each layer where it fits.
    if placement.is_spread:
        return
    how, free = str(dtype).removeprefix("torch."), free_memory(str(device))
    packed = device.type == "cpu"
    needed = footprint.nbytes(how, packed=packed)
    if needed <= free:
        return
    fitting = [
        f"{choice} takes {bytes_text(size)}"
        for choice, size in footprint.choices(packed=packed)
        if size < min(needed, free + 1)
    ]
    instead = ", ".join(fitting) or "no smaller choice fits either"
    raise ModelError(
        f"{name!r} has {footprint.weights:,} weights, which take {bytes_text(needed)} in {how}, "
        f"and {bytes_text(free)} of memory is free on {str(device)!r}; {instead}"
    )


def _counts(config: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield each number of layers or blocks in a configuration and its parts, with its key."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _counts(value)
        elif isinstance(value, int) and _REPEATED.search(str(key)):
            yield str(key), value


def _stored(where: str, revision: str | None) -> tuple[int, int]:
    """Return the number of tensors in the files, and the number of bytes."""
    options: dict[str, Any] = {"revision": revision, "_raise_exceptions_for_missing_entries": False}
    single = cached_file(where, SAFE_WEIGHTS_NAME, **options)
    if single is not None:
        with safe_open(single, "pt") as held:
            return len(held.keys()), Path(single).stat().st_size
    listed = cached_file(where, SAFE_WEIGHTS_INDEX_NAME, **options)
    if listed is None:
        raise ModelError(f"{where!r} holds no {SAFE_WEIGHTS_NAME}")
    index = json.loads(Path(listed).read_text(encoding="utf-8"))
    files = [Path(where) / file for file in set(index["weight_map"].values())]
    # A model on the hub has no files at this path, so its index states the size.
    present = sum(file.stat().st_size for file in files if file.is_file())
    return len(index["weight_map"]), present or int(index["metadata"]["total_size"])
