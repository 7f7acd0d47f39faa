"""The models on this machine, and the memory that they need, as their files state it.

Only `attribute` loads a model: a classifier that judges texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marith.errors import ModelError, RequestError, shown, suggestion
from marith.formula.meaning.binding import Terms, bind, resolve
from marith.formula.meaning.leaves import leaves
from marith.formula.text.trust import parse
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Prompted
from marith.scoring.free_memory import bytes_text
from marith.scoring.weights.footprint import Footprint, room_for_texts
from marith.scoring.weights.gguf.gguf_header import read_header
from marith.scoring.weights.locate import (
    EMBEDDED,
    GGUF,
    WEIGHTS,
    context_length_of,
    downloaded,
    gguf_file,
    locate,
)

if TYPE_CHECKING:
    from marith.scoring.terms.classifier_scorer import ClassifierScorer

__all__ = [
    "Footprint",
    "StoredModel",
    "attribute",
    "bytes_text",
    "compare_terms",
    "compare_vocabularies",
    "describe",
    "local",
    "locate",
]

ADAPTER = "adapter_config.json"
# The library safetensors has the same limit for a header.
_HEADER = 100_000_000  # bytes


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model or LoRA adapter on this machine. A figure is None if the files do not state it.

    `place` is "package", "cache", "directory" or "file". `complete` is True if all files of the
    weights exist. `size` is in bytes on disk, `weights` is the number of weights, and `context` is
    in tokens. `format` is the type in which most weights are stored. `token_numbers` is the number
    of values that the KV cache keeps for each token. `embedding` is the number of weights of the
    embeddings, and `tied` is True if the output head shares them. `chat` is True if the files have
    a chat template.
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
    chat: bool = False

    @property
    def is_language_model(self) -> bool:
        """True unless the files name a LoRA adapter or a classifier."""
        kind = self.architecture or ""
        return not kind.startswith("LoRA of ") and not kind.endswith("ForSequenceClassification")

    @property
    def footprint(self) -> Footprint | None:
        """The memory that the model needs, or None if its number of weights is not stated."""
        if self.weights is None:
            return None
        return Footprint(self.weights, self.embedding, self.tied, self.token_numbers)

    def memory(self, dtype: str) -> int | None:
        """Return the bytes of the weights in memory, without the KV cache."""
        return None if self.footprint is None else self.footprint.nbytes(dtype)

    def ways(self, free: int) -> list[tuple[str, int, str]]:
        """Return ways to load the model into `free` bytes, or [] if `weights` is None.

        Each way is a tuple: an option of `Engine.load`, the bytes of the weights with that option,
        and a text to append, which says how much memory remains for texts.
        """
        if (takes := self.footprint) is None:
            return []
        ways = [*zip(takes.choices(), ("float32", "bfloat16"), strict=True)]
        if self.place == "file":
            # llama.cpp runs a GGUF file faster, and needs fewer bytes.
            ways.insert(0, (("backend='llama.cpp'", self.size), "bfloat16"))
        return [
            (option, nbytes, self._room(takes.token_bytes(dtype), nbytes, free))
            for (option, nbytes), dtype in ways
        ]

    def _room(self, token_bytes: int | None, nbytes: int, free: int) -> str:
        if nbytes > free:
            return f": more than the {bytes_text(free)} that are free"
        return room_for_texts(token_bytes, self.context, free - nbytes) if self.context else ""


def local() -> list[StoredModel]:
    """Return the models and adapters of the package, then the models of the hub's cache by name."""
    folders = {name: WEIGHTS / folder for name, folder in EMBEDDED.items()}
    adapters = sorted(path.parent for path in WEIGHTS.glob(f"*/{ADAPTER}"))
    folders |= {f"pocket-{folder.name}": folder for folder in adapters}
    inside = [_stored(name, folder, "package") for name, folder in folders.items()]
    return [*inside, *sorted(_cached(), key=lambda model: model.name)]


def describe(name: str) -> StoredModel:
    """Return a model by a name that `Engine.load` accepts. Raises ModelError unless it is local."""
    stored = {model.name: model for model in local()}
    if name in stored:
        return stored[name]
    if (where := locate(name)).lower().endswith(GGUF) and (file := gguf_file(where)) is not None:
        return _of_gguf(name, file)
    folder = Path(where)
    if not folder.is_dir():
        hint = suggestion(name, stored, "; `marith models` lists the local models")
        raise ModelError(f"the model {name!r} is not on this machine{hint}")
    return _stored(name, folder, "directory")


def _cached() -> Iterator[StoredModel]:
    """Yield the models in the hub's cache, each in its newest revision."""
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
    counts = [numbers_by_type(file) for file in present]
    weights = sum(sum(count.values()) for count in counts) if complete and all(counts) else None
    takes = Footprint.of(weights or 0, _read_json(folder / "config.json"))
    return StoredModel(
        name,
        _architecture(folder),
        place,
        complete,
        size,
        weights,
        context_length_of(str(folder)),
        max(counts[0], key=counts[0].__getitem__) if counts and counts[0] else None,
        takes.token,
        takes.embedding,
        takes.tied,
        _has_chat_template(folder),
    )


def _of_gguf(name: str, file: Path) -> StoredModel:
    """Return the model of a GGUF file, described by its header."""
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
        "tokenizer.chat_template" in header.metadata,
    )


def weight_files(folder: Path) -> list[Path]:
    """Return the files of the weights, including absent files that an index names."""
    index = _read_json(folder / "model.safetensors.index.json").get("weight_map")
    if isinstance(index, dict):
        return [folder / str(file) for file in sorted(set(map(str, index.values())))]
    return sorted(folder.glob("*.safetensors"))


def numbers_by_type(file: Path) -> dict[str, int]:
    """Return the number of weights of each type, such as "BF16", in a safetensors file.

    The dict is empty without a valid header. The library safetensors is not used, because it would
    import numpy.
    """
    sizes: dict[str, int] = {}
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            header = json.loads(stream.read(min(length, _HEADER)))
        header.pop("__metadata__", None)
        for each in header.values():
            kind = str(each["dtype"])
            sizes[kind] = sizes.get(kind, 0) + int(prod(each["shape"]))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}
    return sizes


def _architecture(folder: Path) -> str | None:
    """Return the class of a saved model, or the base of a LoRA adapter."""
    base = _read_json(folder / ADAPTER).get("base_model_name_or_path")
    if base is not None:
        return f"LoRA of {base}"
    config = _read_json(folder / "config.json")
    listed = config.get("architectures")
    if isinstance(listed, list) and listed:
        return str(listed[0])
    kind = config.get("model_type")
    return None if kind is None else str(kind)


def _has_chat_template(folder: Path) -> bool:
    files = (folder / f"chat_template.{kind}" for kind in ("jinja", "json"))
    config = _read_json(folder / "tokenizer_config.json")
    return bool(config.get("chat_template")) or any(file.is_file() for file in files)


def _read_json(file: Path) -> dict[str, Any]:
    """Return the JSON object of a file, or an empty dict."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def compare_vocabularies(name: str, base: str) -> str:
    """Return a sentence about the tokens that two language models share. Reads only tokenizers.

    `base` is the model of an engine, and `name` is the model of a term. Raises ModelError.
    """
    # These modules import torch, which descriptions do not need.
    from marith.scoring.prompting.shared_tokens import SharedTokens
    from marith.scoring.prompting.tokenizer import Vocabulary
    from marith.scoring.weights.reading import read_tokenizer, vocabulary_of

    def vocabulary(named: str) -> Vocabulary:
        tokenizer = read_tokenizer(named)
        return vocabulary_of(named, tokenizer, _width(named) or len(tokenizer))

    shared = SharedTokens.of(vocabulary(base), vocabulary(name))
    return f"{name!r} has the tokens of {base!r}" if shared is None else shared.sentence(name, base)


def compare_terms(formula: str | Formula, terms: Terms | None, base: str) -> list[str]:
    """Return a sentence for each other model of a formula: which tokens of `base` it shares.

    `terms` are the meanings of the formula's names. Raises FormulaError and ModelError.
    """
    bound = bind(parse(formula), resolve(terms or {}))
    named = (term.model for term in leaves(bound) if isinstance(term, Prompted))
    return [compare_vocabularies(name, base) for name in dict.fromkeys(named) if name]


def _width(name: str) -> int | None:
    """Return the number of ids that a model reads, or None if no configuration states it."""
    where = locate(name)
    folder = Path(where)
    file = folder / "config.json" if folder.is_dir() else downloaded(where)
    config = {} if file is None else _read_json(file)
    text = config.get("text_config")
    stated = (text if isinstance(text, dict) else config).get("vocab_size")
    return stated if isinstance(stated, int) else None


def attribute(
    texts: Sequence[str], model: str, label: str | int, device: str | None = None
) -> list[float]:
    """Return the probability in [0, 1] that a classifier gives to `label`, for each text.

    `model` is an embedded name, a directory or a hub id. Raises ModelError or RequestError.
    """
    from marith.formula.tree.terms import Classifier

    if isinstance(texts, str):
        raise RequestError(f"attribute takes a list of texts, such as [{shown(texts)}]")
    return _scorer(model, device).probabilities(Classifier(model, label=label), texts)


@cache
def _scorer(model: str, device: str | None) -> ClassifierScorer:
    # These modules import torch, which descriptions do not need.
    from marith.engine.engine import loading
    from marith.scoring.terms.classifier_scorer import ClassifierScorer
    from marith.scoring.weights import loader
    from marith.scoring.weights.placing import Placement

    with loading:
        checkpoint = loader.classifier(model, Placement(device=device))
        return ClassifierScorer(checkpoint, checkpoint.vocabulary)
