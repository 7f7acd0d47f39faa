"""The models on this machine, as their files describe them; nothing is loaded or downloaded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from marith.errors import ModelError, suggestion
from marith.scoring.weights.footprint import Footprint
from marith.scoring.weights.gguf_header import read_header
from marith.scoring.weights.locate import (
    EMBEDDED,
    GGUF,
    WEIGHTS,
    context_length_of,
    gguf_file,
    locate,
)

ADAPTER = "adapter_config.json"
_HEADER = 100_000_000  # bytes: what safetensors itself reads at most


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model or LoRA adapter; a figure is None where the files do not say.

    `place` is "package", "cache" or "directory"; `complete` says whether the weights are there.
    `size` is in bytes on disk, `weights` how many numbers they are, `context` in tokens. `format`
    is the type that most of them are stored in, `token_numbers` how many are kept of each token.
    """

    name: str
    architecture: str | None
    place: str
    complete: bool
    size: int
    weights: int | None
    context: int | None
    format: str | None = None
    token_numbers: int | None = None
    embedding: int = 0
    tied: bool = False

    @property
    def footprint(self) -> Footprint | None:
        """What it takes in memory, where its files say how many weights it has."""
        if self.weights is None:
            return None
        return Footprint(self.weights, self.embedding, self.tied, self.token_numbers)

    def memory(self, dtype: str) -> int | None:
        """The bytes that the weights take in memory, without keys and values of texts."""
        return None if self.footprint is None else self.footprint.nbytes(dtype)


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
    if (where := locate(name)).lower().endswith(GGUF) and (file := gguf_file(where)) is not None:
        return _of_gguf(name, file)
    folder = Path(where)
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
    takes = Footprint.of(weights or 0, _read_json(folder / "config.json"))
    return StoredModel(
        name,
        _architecture(folder),
        place,
        complete,
        size,
        weights,
        context_length_of(str(folder)),
        format_of(present[0]) if present else None,
        takes.token,
        takes.embedding,
        takes.tied,
    )


def _of_gguf(name: str, file: Path) -> StoredModel:
    """A GGUF file by its header."""
    header = read_header(file)
    headers = [*map(read_header, header.files)]
    takes = header.footprint
    weights = sum(one.weights for one in headers)
    largest = max(headers, key=lambda one: one.weights)
    return StoredModel(
        name,
        header.architecture,
        "file",
        len(headers) == header.parts,
        header.all_bytes,
        weights or None,
        header.number("context_length"),
        largest.format,
        takes.token,
        takes.embedding,
        takes.tied,
    )


def weight_files(folder: Path) -> list[Path]:
    """The files of the weights, also those that are not there although an index names them."""
    index = _read_json(folder / "model.safetensors.index.json").get("weight_map")
    if isinstance(index, dict):
        return [folder / str(file) for file in sorted(set(map(str, index.values())))]
    return sorted(folder.glob("*.safetensors"))


def count_weights(file: Path) -> int | None:
    """How many numbers a file of safetensors holds, by its header; None where it has none."""
    sizes = _sizes_by_type(file)
    return None if sizes is None else sum(sizes.values())


def format_of(file: Path) -> str | None:
    """The type of numbers that most of a file of safetensors is in, such as "BF16"."""
    sizes = _sizes_by_type(file)
    return max(sizes, key=lambda kind: sizes[kind]) if sizes else None


def _sizes_by_type(file: Path) -> dict[str, int] | None:
    """How many numbers of each type a file of safetensors holds; None where it has no header."""
    sizes: dict[str, int] = {}
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if length > _HEADER:
                return None
            header = json.loads(stream.read(length))
        for key, each in header.items():
            if key != "__metadata__":
                kind = str(each["dtype"])
                sizes[kind] = sizes.get(kind, 0) + int(prod(each["shape"]))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return sizes


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
