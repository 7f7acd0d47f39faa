"""What loading a checkpoint would take, compared with what its files hold, before it is built."""

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
from marith.scoring.memory import free_memory
from marith.scoring.weights.footprint import Footprint, amount
from marith.scoring.weights.placing import Placement

_REPEATED = re.compile(r"(layers?|blocks?|depth)$")
_LEAST = 512  # so many layers are always built: configurations list some that a model leaves out
_PER_BYTE = 8  # weights, of one bit each


def check_size(name: str, where: str, revision: str | None, kind: Any, config: Any) -> int:
    """How many weights a model has, by its configuration.

    Raises ModelError for one that asks for more than the files can hold: each layer has a tensor
    at least, and each weight a bit.
    """
    tensors, size = _stored(where, revision)
    return check_held(name, tensors, size, kind, config)


def check_held(name: str, tensors: int, size: int, kind: Any, config: Any) -> int:
    """The same of so many tensors and bytes. `kind` makes a model of a configuration."""
    for key, count in _counts(config.to_dict()):
        if count > max(tensors, _LEAST):
            raise ModelError(
                f"the configuration of {name!r} asks for {count} {key}, and its files hold "
                f"{tensors} tensors"
            )
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
    """Raises ModelError for weights that are larger than what is free; it names smaller choices."""
    if placement.is_spread:  # accelerate places what fits
        return
    how, free = str(dtype).removeprefix("torch."), free_memory(str(device))
    packed = device.type == "cpu"
    needed = footprint.nbytes(how, packed=packed)
    if needed <= free:
        return
    fitting = [
        f"{choice} takes {amount(size)}"
        for choice, size in footprint.choices(packed=packed)
        if size < min(needed, free + 1)
    ]
    instead = ", ".join(fitting) or "no smaller choice fits either"
    raise ModelError(
        f"{name!r} has {footprint.weights:,} weights, which take {amount(needed)} in {how}, "
        f"and {amount(free)} of memory is free on {str(device)!r}; {instead}"
    )


def _counts(config: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """How often a configuration, or one inside it, repeats a part of the model."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _counts(value)
        elif isinstance(value, int) and _REPEATED.search(str(key)):
            yield str(key), value


def _stored(where: str, revision: str | None) -> tuple[int, int]:
    """How many tensors the files hold, and how many bytes."""
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
    present = sum(file.stat().st_size for file in files if file.is_file())
    return len(index["weight_map"]), present or int(index["metadata"]["total_size"])
