"""The models on this machine, as their files describe them; nothing is loaded or downloaded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from marith.errors import ModelError, suggestion
from marith.scoring.checkpoints.locate import EMBEDDED, WEIGHTS, context_length_of, locate

ADAPTER = "adapter_config.json"
_HEADER = 100_000_000  # bytes: what safetensors itself reads at most


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model or LoRA adapter; a figure is None where the files do not say.

    `place` is "package", "cache" or "directory"; `complete` says whether the weights are there.
    `size` is in bytes on disk, `weights` how many numbers they are, `context` in tokens.
    """

    name: str
    architecture: str | None
    place: str
    complete: bool
    size: int
    weights: int | None
    context: int | None

    def memory(self, bytes_each: int) -> int | None:
        """The bytes that the weights take in memory, without keys and values of texts."""
        return None if self.weights is None else self.weights * bytes_each


def all_models() -> list[StoredModel]:
    """The models and adapters of the package, then those of the hub's cache by name."""
    folders = {name: WEIGHTS / folder for name, folder in EMBEDDED.items()}
    adapters = sorted(path.parent for path in WEIGHTS.glob(f"*/{ADAPTER}"))
    folders |= {f"pocket-{folder.name}": folder for folder in adapters}
    inside = [_stored(name, folder, "package") for name, folder in folders.items()]
    return [*inside, *sorted(_cached(), key=lambda model: model.name)]


def named(name: str) -> StoredModel:
    """One model by the name that `Engine.load` takes. Raises ModelError for what is not here."""
    stored = {model.name: model for model in all_models()}
    if name in stored:
        return stored[name]
    folder = Path(locate(name))
    if not folder.is_dir():
        hint = suggestion(name, stored, "; `marith models` lists those that are")
        raise ModelError(f"the model {name!r} is not on this machine{hint}")
    return _stored(name, folder, "directory")


def _cached() -> Iterator[StoredModel]:
    """The models in the hub's cache, each as of its newest revision."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        repositories = scan_cache_dir().repos
    except CacheNotFound:
        return
    for repository in repositories:
        if repository.repo_type == "model" and repository.revisions:
            newest = max(repository.revisions, key=lambda revision: revision.last_modified)
            yield _stored(repository.repo_id, newest.snapshot_path, "cache")


def _stored(name: str, folder: Path, place: str) -> StoredModel:
    files = weight_files(folder)
    present = [file for file in files if file.is_file()]
    complete = bool(files) and len(present) == len(files)
    size = sum(file.stat().st_size for file in folder.glob("*") if file.is_file())
    counts = [count_weights(file) for file in present]
    weights = None if not complete or None in counts else sum(count or 0 for count in counts)
    architecture = _architecture(folder)
    return StoredModel(
        name, architecture, place, complete, size, weights, context_length_of(str(folder))
    )


def weight_files(folder: Path) -> list[Path]:
    """The files of the weights, also those that are not there although an index names them."""
    index = _read_json(folder / "model.safetensors.index.json").get("weight_map")
    if isinstance(index, dict):
        return [folder / str(file) for file in sorted(set(map(str, index.values())))]
    return sorted(folder.glob("*.safetensors"))


def count_weights(file: Path) -> int | None:
    """How many numbers a file of safetensors holds, by its header; None where it has none."""
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if length > _HEADER:
                return None
            header = json.loads(stream.read(length))
        return sum(
            int(prod(each["shape"])) for key, each in header.items() if key != "__metadata__"
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _architecture(folder: Path) -> str | None:
    """The class that a model was saved from, or whose LoRA adapter this is."""
    base = _read_json(folder / ADAPTER).get("base_model_name_or_path")
    if base is not None:
        return f"LoRA of {base}"
    config = _read_json(folder / "config.json")
    listed = config.get("architectures")
    if isinstance(listed, list) and listed:
        return str(listed[0])
    kind = config.get("model_type")
    return None if kind is None else str(kind)


def _read_json(file: Path) -> dict[str, Any]:
    """The JSON object of a file; an empty one where there is none."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}
