"""Load every checkpoint once per process, and keep it while it is used.

Not safe to call from several threads at once. The engine, which owns the threads, holds a lock.
"""

from __future__ import annotations

import logging
import time
from contextlib import nullcontext
from dataclasses import fields, replace
from os import PathLike, fspath
from typing import Any
from weakref import WeakValueDictionary

import torch

from marith.errors import ModelError, shown
from marith.request.sampling import Sampling
from marith.scoring.free_memory import bytes_text, free_memory
from marith.scoring.weights import kinds
from marith.scoring.weights.checkpoint import Checkpoint, threads_of
from marith.scoring.weights.gguf.gguf_weights import returning_freed
from marith.scoring.weights.kinds import CLASSIFIER, LANGUAGE_MODEL
from marith.scoring.weights.layout.lean_modules import make_lean
from marith.scoring.weights.layout.packing import pack, packs
from marith.scoring.weights.layout.rotary_frequencies import (
    fix_rotary_frequencies,
    original_positions,
)
from marith.scoring.weights.llama_cpp.llama_cpp_loading import llama_cpp_checkpoint, resolved
from marith.scoring.weights.locate import GGUF, FileTimes, file_times, locate
from marith.scoring.weights.placing import Placement, device_for, dtype_for
from marith.scoring.weights.reading import (
    StoredCheckpoint,
    Suits,
    read,
    read_tokenizer,
    stated_positions,
    vocabulary_of,
)
from marith.scoring.weights.shared_weights import independent, nbytes, weights

_log = logging.getLogger(__name__)


_kept: WeakValueDictionary[tuple[str, str, FileTimes, Placement], Checkpoint] = (
    WeakValueDictionary()
)


def language_model(
    name: str | PathLike[str], placement: Placement, suits: Suits | None = None
) -> Checkpoint:
    """Return the causal language model that `name` names.

    `name` is an embedded name, a directory, a GGUF file or a hub id. The weights are packed if
    oneDNN can read them, unless a backend computes the model. `suits` is called with the vocabulary
    before any weights are read, and raises an error if the caller cannot use the vocabulary.
    """
    name = fspath(name) if isinstance(name, PathLike) else name
    return _cached(LANGUAGE_MODEL, name, placement, suits)


def base_model(model: Any, tokenizer: Any, placement: Placement) -> Checkpoint:
    """Return the causal language model that `model` names, or a loaded model and its tokenizer."""
    if not isinstance(model, (str, PathLike)):
        return from_loaded(model, tokenizer, placement)
    if tokenizer is None:
        return language_model(model, placement)
    name, where = fspath(model), locate(model)
    if not where.lower().endswith(GGUF):
        raise ModelError(f"{model!r} has its own tokenizer; leave out tokenizer=")
    return _load(LANGUAGE_MODEL, name, where, _exactly(name, where, placement), tokenizer)


def classifier(name: str, placement: Placement) -> Checkpoint:
    """Return the sequence classifier that `name` names.

    `name` is an embedded name, a directory or a hub id. transformers computes it, even if
    `placement` names another backend.
    """
    return _cached(CLASSIFIER, name, replace(placement, backend=None))


def as_stored(name: str, placement: Placement) -> tuple[Any, Any]:
    """Return a causal language model as transformers makes it, never packed, and its tokenizer.

    Each call loads the model again. Raises ModelError.
    """
    found = read(LANGUAGE_MODEL, name, locate(name), placement)
    return found.model, found.tokenizer


def from_loaded(model: Any, tokenizer: Any, placement: Placement) -> Checkpoint:
    """Return the checkpoint of a loaded model with its tokenizer.

    The tokenizer may be the name of a directory, or a hub id. The model stays as it is: a copy is
    changed instead. The copy shares the model's weights, unless they are packed or the model writes
    to them.
    """
    started = time.monotonic()
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "config"):
        named = "a name, a directory, a hub id or a loaded model of transformers"
        raise ModelError(f"a model is {named}, not {shown(model)}")
    if tokenizer is None:
        raise ModelError("a loaded model needs its tokenizer: Engine.load(model, tokenizer=…)")
    if isinstance(tokenizer, (str, PathLike)):
        tokenizer = read_tokenizer(tokenizer)
    for option in ("device", "dtype", "revision", "backend"):
        value = getattr(placement, option)
        if value is not None:
            raise ModelError(f"a loaded model has its own {option}; leave out {option}={value!r}")
    name = str(getattr(model.config, "_name_or_path", "") or type(model).__name__)
    kinds.check_loaded(name, model)
    with threads_of(model):
        unchanging = independent(model)
        kinds.try_out(name, unchanging)
        copied = lay_out_copy(unchanging, model)
    stored = StoredCheckpoint(unchanging, tokenizer)
    return _logged(_checkpoint(name, stored, placement), started, copied)


def _cached(kind: str, name: str, placement: Placement, suits: Suits | None = None) -> Checkpoint:
    where = locate(name)
    # A default and its explicit value name the same checkpoint, so defaults are filled in first.
    exact = _exactly(name, where, placement)
    key = kind, where, file_times(where), exact
    checkpoint = _kept.get(key)
    if checkpoint is None:
        checkpoint = _kept[key] = _load(kind, name, where, exact, suits=suits)
    # The vocabulary was not checked yet if the checkpoint was cached, or its file lists none.
    if suits is not None:
        suits(checkpoint.vocabulary)
    return checkpoint


def _exactly(name: str, where: str, placement: Placement) -> Placement:
    """Return the placement, completed with the device and number type that the loader chooses."""
    if placement.backend is not None:
        return resolved(placement)
    device = device_for(placement.device)
    dtype = dtype_for(name, where, device, placement)
    where_to = placement.device if placement.is_spread else str(device)
    return replace(placement, device=where_to, dtype=str(dtype))


def _load(
    kind: str,
    name: str,
    where: str,
    placement: Placement,
    tokenizer: Any = None,
    suits: Suits | None = None,
) -> Checkpoint:
    if placement.backend is not None:
        return llama_cpp_checkpoint(name, where, placement, tokenizer, suits)
    started = time.monotonic()
    # GGUF files are read tensor by tensor, each in float32 first.
    with returning_freed() if where.lower().endswith(GGUF) else nullcontext():
        found = read(kind, name, where, placement, tokenizer=tokenizer, suits=suits)
        model = found.model
        with threads_of(model):
            if kind == LANGUAGE_MODEL:
                kinds.try_out(name, model)
            # Modules with hooks of accelerate stay as they are.
            if not placement.is_spread:
                lay_out(model)
    return _logged(_checkpoint(name, found, placement), started)


def _logged(checkpoint: Checkpoint, started: float, copied: str = "") -> Checkpoint:
    seconds = time.monotonic() - started
    room = checkpoint.room_for_texts(free_memory(str(checkpoint.device)))
    said = ", ".join(filter(None, (checkpoint.summary, copied))) + room
    _log.info("loaded %r in %.2f s: %s", checkpoint.name, seconds, said)
    if sampling := _sampling(checkpoint.model):
        what = "has sampling values of its own, which other libraries apply and marith does not"
        _log.info("%r %s: %s; write them as options to apply them", checkpoint.name, what, sampling)
    return checkpoint


def _sampling(model: Any) -> str:
    """Return the sampling values of the model's generation config, written as options."""
    generation = getattr(model, "generation_config", None)
    stated = {f.name: (getattr(generation, f.name, None), f.default) for f in fields(Sampling)}
    own = {name: value for name, (value, default) in stated.items() if value and value != default}
    return ", ".join(f"{name}={shown(value)}" for name, value in own.items())


def _checkpoint(name: str, read: StoredCheckpoint, placement: Placement) -> Checkpoint:
    model = read.model
    config = model.config.get_text_config()
    length = placement.context(name, positions_of(model), original_positions(model.config))
    fix_rotary_frequencies(name, model, length)
    ends = [*_ends(name, model), *read.ends]
    vocabulary = vocabulary_of(name, read.tokenizer, config.vocab_size, ends)
    return Checkpoint(name, model, vocabulary, length, method=read.method)


def _ends(name: str, model: Any) -> list[int]:
    """Return the tokens that end a text, by the model's configuration and generation config."""
    generation = getattr(model, "generation_config", None)
    ends: list[int] = []
    for source in (model.config.get_text_config(), generation):
        listed = getattr(source, "eos_token_id", None)
        ends += listed if isinstance(listed, list) else [] if listed is None else [listed]
    if wrong := [end for end in ends if not isinstance(end, int)]:
        raise ModelError(f"eos_token_id of {name!r} is the number of a token, not {wrong[0]!r:.60}")
    return ends


def positions_of(model: Any) -> int:
    """Return the largest number of tokens that a model can read.

    RoBERTa and similar models number positions after the padding index, so the positions before it
    are not used.
    """
    positions = stated_positions(model.config)
    for name, module in model.named_modules():
        padding = getattr(module, "padding_idx", None)
        if name.endswith("position_embeddings") and padding is not None:
            positions = min(positions, module.weight.shape[0] - padding - 1)
    return positions


def lay_out(model: Any) -> None:
    """Make the modules of a model lean and pack its weights, in place."""
    make_lean(model)
    pack(model)


def lay_out_copy(model: Any, original: Any) -> str:
    """Lay out a model that shares the weights of `original`. `original` stays as it is.

    Packed weights are copies. On a device without packing the model stays as it is. Return a phrase
    with the number of bytes that were copied, or "".
    """
    if not packs(model):
        return ""
    lay_out(model)
    shared = set(map(id, weights(original)))
    copied = nbytes(one for one in weights(model) if id(one) not in shared)
    return f"{bytes_text(copied)} copied" if copied else ""
