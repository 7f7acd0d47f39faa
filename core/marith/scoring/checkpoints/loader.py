"""Every checkpoint, loaded once per process and kept as long as someone uses it.

Not safe between threads by itself: the engine, which owns the threads, takes turns here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig
from transformers.utils import logging

from marith.errors import ModelError
from marith.scoring.checkpoints import hub_lookup, kinds
from marith.scoring.checkpoints.kinds import CLASSES, CLASSIFIER, LANGUAGE_MODEL, refusing
from marith.scoring.checkpoints.locate import EMBEDDED, WEIGHTS, locate
from marith.scoring.checkpoints.shared_weights import independent
from marith.scoring.checkpoints.sizes import check_size
from marith.scoring.layouts import packing
from marith.scoring.prompting.tokenizer import Vocabulary

_ANY = 2048  # tokens of context where a configuration does not say


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Checkpoint:
    """A loaded model with its tokenizer's vocabulary."""

    name: str
    model: Any
    vocabulary: Vocabulary
    context_length: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Where and how weights are loaded; None leaves the choice to the loader."""

    device: str | None = None
    dtype: str | None = None
    revision: str | None = None
    context_length: int | None = None

    def __post_init__(self) -> None:
        length = self.context_length
        if length is not None and (isinstance(length, bool) or not isinstance(length, int)):
            raise ModelError(f"context_length is a whole number of tokens, not {length!r:.60}")


_kept: WeakValueDictionary[tuple[str, str, Placement], Checkpoint] = WeakValueDictionary()


def language_model(name: str | PathLike[str], placement: Placement) -> Checkpoint:
    """A causal language model by embedded name, directory or hub id; packed where oneDNN can."""
    name = fspath(name) if isinstance(name, PathLike) else name
    return _cached(LANGUAGE_MODEL, name, placement)


def classifier(name: str, placement: Placement) -> Checkpoint:
    """A sequence classifier by embedded name, directory or hub id."""
    return _cached(CLASSIFIER, name, placement)


def as_stored(
    name: str, placement: Placement, fits: Callable[[Any], None] | None = None
) -> tuple[Any, Any]:
    """A causal language model by name as transformers makes it, never packed, and its tokenizer.

    Each call loads it anew. `fits` is shown the configuration before any weights are read, and
    raises where it does not suit. Raises ModelError.
    """
    return _read(LANGUAGE_MODEL, name, locate(name), placement, fits)


def from_loaded(model: Any, tokenizer: Any, placement: Placement) -> Checkpoint:
    """A model that is loaded already, with its tokenizer.

    The tokenizer may be the name of a directory, or a hub id. The model stays as it is: what
    changes is a copy, which shares its weights unless they are packed, or it writes to them.
    """
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "config"):
        raise ModelError(f"a model is one of transformers', not {type(model).__name__}")
    if tokenizer is None:
        raise ModelError("a loaded model needs its tokenizer: Engine.load(model, tokenizer=…)")
    if isinstance(tokenizer, (str, PathLike)):
        hub_lookup.require(fspath(tokenizer))
        with refusing(f"cannot load the tokenizer {str(tokenizer)!r}"):
            tokenizer = AutoTokenizer.from_pretrained(tokenizer, trust_remote_code=False)
    for option in ("device", "dtype", "revision"):
        value = getattr(placement, option)
        if value is not None:
            raise ModelError(f"a loaded model has its own {option}; {value!r} cannot be given")
    name = str(getattr(model.config, "_name_or_path", "") or type(model).__name__)
    kinds.check_loaded(name, model)
    unchanging = independent(model, partial(kinds.try_out, name))
    return _checkpoint(name, _packed(unchanging), tokenizer, placement)


def _cached(kind: str, name: str, placement: Placement) -> Checkpoint:
    device = _device(placement.device)
    resolved = replace(placement, device=str(device), dtype=str(_dtype(placement.dtype, device)))
    key = kind, locate(name), resolved
    checkpoint = _kept.get(key)
    if checkpoint is None:
        checkpoint = _kept[key] = _load(kind, name, key[1], resolved)
    return checkpoint


def _load(kind: str, name: str, where: str, placement: Placement) -> Checkpoint:
    model, tokenizer = _read(kind, name, where, placement)
    if kind == LANGUAGE_MODEL:
        kinds.try_out(name, model)
        model = _packed(model)
    return _checkpoint(name, model, tokenizer, placement)


def _read(
    kind: str,
    name: str,
    where: str,
    placement: Placement,
    fits: Callable[[Any], None] | None = None,
) -> tuple[Any, Any]:
    """What the files hold, model and tokenizer, with every weight that the model has."""
    device = _device(placement.device)
    dtype = _dtype(placement.dtype, device)
    given = {"revision": placement.revision, "trust_remote_code": False}
    hub_lookup.require(where, placement.revision)
    with refusing(f"cannot load the model {name!r}"):
        stored, _ = PreTrainedConfig.get_config_dict(where, revision=placement.revision)
        kinds.check_code(name, stored)
        config = AutoConfig.from_pretrained(where, **given)
        kinds.check_kind(name, config, kind)
        if fits is not None:
            fits(config)
        home = where if _has_tokenizer(where) else str(WEIGHTS / EMBEDDED["pocket"])
        tokenizer = AutoTokenizer.from_pretrained(home, **given)
        check_size(name, where, placement.revision, CLASSES[kind], config)
        with _progress(shown=name not in EMBEDDED):
            model, report = CLASSES[kind].from_pretrained(
                where,
                config=config,
                dtype=dtype,
                use_safetensors=True,
                output_loading_info=True,
                **given,
            )
        model = model.to(device)
    missing = sorted(report["missing_keys"])
    if missing:
        architecture = kinds.architecture_of(config)
        raise ModelError(
            f"{name!r} ({architecture}) lacks weights of {type(model).__name__}: {missing[0]!r}; "
            f"{kind} is needed with its head"
        )
    return model, tokenizer


def _packed(model: Any) -> Any:
    """The model itself, its large weights laid out anew."""
    packing.pack(model)
    return model


@contextmanager
def _progress(shown: bool) -> Iterator[None]:
    """Bars are for what takes long: an embedded model loads before one could be read."""
    hide = not shown and logging.is_progress_bar_enabled()
    if hide:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        if hide:
            logging.enable_progress_bar()


def _checkpoint(name: str, model: Any, tokenizer: Any, placement: Placement) -> Checkpoint:
    config = model.config.get_text_config()
    positions = positions_of(model)
    wanted = positions if placement.context_length is None else placement.context_length
    if not 2 <= wanted <= positions:
        raise ModelError(f"the context of {name!r} holds {positions} tokens, not {wanted!r}")
    with refusing(f"cannot use the tokenizer of {name!r}"):
        vocabulary = Vocabulary(tokenizer, config.vocab_size, _ends(name, model))
    return Checkpoint(name, model, vocabulary, wanted)


def _ends(name: str, model: Any) -> list[int]:
    """The tokens that end a text, as the configuration and that of generation list them."""
    generation = getattr(model, "generation_config", None)
    ends: list[int] = []
    for source in (model.config.get_text_config(), generation):
        listed = getattr(source, "eos_token_id", None)
        ends += listed if isinstance(listed, list) else [] if listed is None else [listed]
    if wrong := [end for end in ends if not isinstance(end, int)]:
        raise ModelError(f"eos_token_id of {name!r} is the number of a token, not {wrong[0]!r:.60}")
    return ends


def positions_of(model: Any) -> int:
    """How many tokens a model reads at most.

    RoBERTa and its kin count positions from behind that of their padding, which so are none.
    """
    config = model.config.get_text_config()
    stated = getattr(config, "max_position_embeddings", None)
    positions = stated if isinstance(stated, int) and stated > 0 else _ANY
    for name, module in model.named_modules():
        padding = getattr(module, "padding_idx", None)
        if name.endswith("position_embeddings") and padding is not None:
            positions = min(positions, module.weight.shape[0] - padding - 1)
    return positions


def _has_tokenizer(where: str) -> bool:
    """Embedded classifiers share the pocket tokenizer; all others bring their own."""
    return Path(where).parent != WEIGHTS.resolve() or (Path(where) / "tokenizer.json").is_file()


def _device(name: str | None) -> torch.device:
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
    except (RuntimeError, TypeError):
        raise ModelError(f"there is no device {name!r}") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ModelError(f"this machine has no device {name!r}")
    return device


def _dtype(name: str | None, device: torch.device) -> torch.dtype:
    """float32 on a CPU and bfloat16 on an accelerator, unless a dtype is given."""
    if name is None:
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    dtype = getattr(torch, str(name).removeprefix("torch."), None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise ModelError(f"there is no floating-point type {name!r}")
    return dtype
