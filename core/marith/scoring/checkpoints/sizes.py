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

_REPEATED = re.compile(r"(layers?|blocks?|depth)$")
_LEAST = 512  # so many layers are always built: configurations list some that a model leaves out
_PER_BYTE = 8  # weights, of one bit each


def check_size(name: str, where: str, revision: str | None, kind: Any, config: Any) -> None:
    """Raises ModelError for a configuration that asks for more than the files can hold.

    Each layer has a tensor at least, and each weight a bit.
    """
    tensors, size = _stored(where, revision)
    check_held(name, tensors, size, kind, config)


def check_held(name: str, tensors: int, size: int, kind: Any, config: Any) -> None:
    """The same of so many tensors and bytes. `kind` makes a model of a configuration."""
    for key, count in _counts(config.to_dict()):
        if count > max(tensors, _LEAST):
            raise ModelError(
                f"the configuration of {name!r} asks for {count} {key}, and its files hold "
                f"{tensors} tensors"
            )
    with torch.device("meta"):
        weights = sum(weight.numel() for weight in kind.from_config(config).parameters())
    if weights > _PER_BYTE * size:
        raise ModelError(
            f"the configuration of {name!r} asks for {weights} weights, and its files hold "
            f"{size} bytes"
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
    here = sum(file.stat().st_size for file in files if file.is_file())
    return len(index["weight_map"]), here or int(index["metadata"]["total_size"])
