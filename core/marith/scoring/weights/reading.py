"""Read the files of a checkpoint: a model as transformers makes it, and its tokenizer."""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

import torch
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig
from transformers.utils import logging as transformers_logging

from marith.errors import ModelError
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.weights import kinds
from marith.scoring.weights.footprint import Footprint
from marith.scoring.weights.gguf.gguf_config import gguf_config
from marith.scoring.weights.gguf.gguf_header import GGUFHeader, read_header
from marith.scoring.weights.gguf.gguf_tokenizer import gguf_end_tokens, gguf_tokenizer
from marith.scoring.weights.gguf.gguf_weights import gguf_model, require_library
from marith.scoring.weights.kinds import CLASSES, LANGUAGE_MODEL, raising_model_error
from marith.scoring.weights.locate import (
    EMBEDDED,
    GGUF,
    local_file,
    locate,
    require_on_hub,
    require_tokenizer,
    tokenizer_home,
)
from marith.scoring.weights.placing import Placement, device_for, dtype_for
from marith.scoring.weights.quantised_files import Quantised, quantised
from marith.scoring.weights.sizes import check_held, check_size, require_memory

Suits: TypeAlias = Callable[[Vocabulary], object]
# This is the context length if the configuration does not state one.
_ANY = 2048


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A model and its tokenizer, as they are stored.

    `ends` are tokens that end a text, in addition to the tokens that the model's configuration
    lists. `method` is the method by which the weights are quantised, if the model keeps them
    quantised in memory.
    """

    model: Any
    tokenizer: Any
    ends: Sequence[int] = ()
    method: str | None = None


def read(
    kind: str,
    name: str,
    where: str,
    placement: Placement,
    tokenizer: Any = None,
    suits: Suits | None = None,
) -> StoredCheckpoint:
    """Return the model with all of its weights, and its tokenizer. Raises ModelError.

    `suits` receives the vocabulary before any weight is read. `tokenizer` is for a GGUF file whose
    own tokenizer cannot be built.
    """
    device = device_for(placement.device)
    dtype = dtype_for(name, where, device, placement)
    reader = _read_gguf if where.lower().endswith(GGUF) else _read_stored
    return reader(kind, name, where, placement, (device, dtype), suits or _any, tokenizer)


def read_tokenizer(name: str | PathLike[str], revision: str | None = None) -> Any:
    """Return a tokenizer by directory, GGUF file or hub id. Raises ModelError."""
    named = fspath(name)
    if named.lower().endswith(GGUF):
        return gguf_tokenizer(named, header_of(named, locate(named), revision))
    where = locate(named) if named in EMBEDDED else named
    require_on_hub(where, revision)
    with raising_model_error(f"cannot load the tokenizer {named!r}"):
        return AutoTokenizer.from_pretrained(where, trust_remote_code=False, revision=revision)


def header_of(name: str, where: str, revision: str | None) -> GGUFHeader:
    """Return the header of a GGUF file, which is downloaded if needed. Raises ModelError."""
    return read_header(local_file(name, where, revision))


def tokenizer_of(name: str, header: GGUFHeader, tokenizer: Any) -> Any:
    """Return the caller's tokenizer for a GGUF file, or else one that the file describes."""
    if tokenizer is None:
        return gguf_tokenizer(name, header)
    return read_tokenizer(tokenizer) if isinstance(tokenizer, (str, PathLike)) else tokenizer


def stated_positions(config: Any) -> int:
    """Return the number of tokens that a model can read, by its configuration."""
    stated = getattr(config.get_text_config(), "max_position_embeddings", None)
    return stated if isinstance(stated, int) and stated > 0 else _ANY


def _any(_: Vocabulary) -> None:
    """Accept every vocabulary."""


def vocabulary_of(name: str, tokenizer: Any, width: int, ends: Sequence[int] = ()) -> Vocabulary:
    """Return the vocabulary of a model that returns `width` logits. Raises ModelError."""
    with raising_model_error(f"cannot use the tokenizer of {name!r}"):
        return Vocabulary(tokenizer, width, ends)


def _read_stored(
    kind: str,
    name: str,
    where: str,
    placement: Placement,
    place: tuple[torch.device, torch.dtype],
    suits: Suits,
    _tokenizer: Any,
) -> StoredCheckpoint:
    source = {"revision": placement.revision, "trust_remote_code": False}
    require_on_hub(where, placement.revision)
    with raising_model_error(f"cannot load the model {name!r}"):
        stored, _ = PreTrainedConfig.get_config_dict(where, revision=placement.revision)
        kinds.check_code(name, stored)
        found = quantised(name, stored, place[0])
        config = AutoConfig.from_pretrained(where, **source)
        kinds.check_kind(name, config, kind)
        # A context length that the model cannot have is refused before the weights are read.
        placement.context(name, stated_positions(config))
        home = tokenizer_home(where)
        require_tokenizer(name, Path(home))
        tokenizer = AutoTokenizer.from_pretrained(home, **source)
        if kind == LANGUAGE_MODEL:
            suits(vocabulary_of(name, tokenizer, config.get_text_config().vocab_size))
        weights = check_size(name, where, placement.revision, CLASSES[kind], config)
        # A footprint is computed for floats; the bytes of quantised weights depend on the method.
        if found is None or found.unpacked:
            footprint = Footprint.of(weights, config.to_dict())
            require_memory(name, footprint, *place, placement)
        with _progress(name not in EMBEDDED and _is_most_of_it(placement, place)):
            files = {"use_safetensors": True, **source, **_how(placement, place, found)}
            model, report = CLASSES[kind].from_pretrained(where, config=config, **files)
        model = _placed(model, placement, place, found)
    complete = _complete(name, kind, model, report["missing_keys"])
    method = found.method if found is not None and not found.unpacked else None
    return StoredCheckpoint(complete, tokenizer, method=method)


def _read_gguf(
    kind: str,
    name: str,
    where: str,
    placement: Placement,
    place: tuple[torch.device, torch.dtype],
    suits: Suits,
    tokenizer: Any,
) -> StoredCheckpoint:
    require_library(name)
    header = header_of(name, where, placement.revision)
    config = gguf_config(name, header)
    kinds.check_kind(name, config, kind)
    placement.context(name, stated_positions(config))
    tokenizer = tokenizer_of(name, header, tokenizer)
    suits(vocabulary_of(name, tokenizer, config.get_text_config().vocab_size))
    with raising_model_error(f"cannot load the model {name!r}"):
        stored = len(header.tensors), header.nbytes
        footprint = Footprint.of(check_held(name, *stored, CLASSES[kind], config), config.to_dict())
        require_memory(name, footprint, *place, placement)
        made = kinds.class_of(kind, config)
        how = _how(placement, place, None)
        with _progress(_is_most_of_it(placement, place)):
            model, report = gguf_model(name, header, made, config, **how)
        model = _placed(model, placement, place, None)
    complete = _complete(name, kind, model, report["missing_keys"])
    return StoredCheckpoint(complete, tokenizer, gguf_end_tokens(header, tokenizer))


def _how(
    placement: Placement, place: tuple[torch.device, torch.dtype], found: Quantised | None
) -> dict[str, Any]:
    """Return the options for transformers: the number type, and the devices."""
    how: dict[str, Any] = {"dtype": place[1], "output_loading_info": True}
    if found is not None:
        how["device_map"] = {"": place[0]}
    if placement.is_spread:
        how |= {"device_map": "auto", "offload_folder": _offloaded()}
        if placement.max_memory is not None:
            how["max_memory"] = {_place(key): limit for key, limit in placement.max_memory}
    return how


def _placed(
    model: Any,
    placement: Placement,
    place: tuple[torch.device, torch.dtype],
    found: Quantised | None,
) -> Any:
    """Return the model on its device. transformers may have placed it there already."""
    if placement.is_spread or (found is not None and not found.unpacked):
        return model
    # transformers unpacks quantised weights to bfloat16, so their type is converted too.
    return model.to(*place[: 1 if found is None else 2])


@cache
def _offloaded() -> str:
    """Return a folder for weights that fit neither a GPU nor the memory. It is deleted at exit."""
    folder = tempfile.TemporaryDirectory(prefix="marith-weights-")
    atexit.register(folder.cleanup)
    return folder.name


def _place(name: str) -> int | str:
    """Return a device as accelerate's tables name it: a GPU by its number."""
    device = torch.device(name) if name not in ("cpu", "disk") else None
    return name if device is None or device.type != "cuda" else device.index or 0


def _complete(name: str, kind: str, model: Any, missing: Any) -> Any:
    """Return the model. Raises ModelError if the files lack one of its weights."""
    if missing:
        architecture = kinds.architecture_of(model.config)
        raise ModelError(
            f"{name!r} ({architecture}) lacks weights of {type(model).__name__}, such as "
            f"{min(missing)!r}: use the files of {kind} with all its weights, the head included"
        )
    return model


def _is_most_of_it(placement: Placement, place: tuple[torch.device, torch.dtype]) -> bool:
    """Return True if reading takes most of the loading time. On a CPU, packing takes as long."""
    return placement.is_spread or place[0].type != "cpu"


@contextmanager
def _progress(shown: bool) -> Iterator[None]:
    """Let transformers show a progress bar. The bar reaches 100 % when the weights are read."""
    hide = not shown and transformers_logging.is_progress_bar_enabled()
    if hide:
        transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if hide:
            transformers_logging.enable_progress_bar()
