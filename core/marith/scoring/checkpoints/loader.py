"""Every checkpoint, loaded once per process and kept as long as someone uses it.

Not safe between threads by itself: the engine, which owns the threads, takes turns here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig
from transformers.utils import logging as transformers_logging

from marith.errors import ModelError, shown
from marith.request.checks import quantize_name
from marith.scoring.checkpoints import hub_lookup, kinds
from marith.scoring.checkpoints.amounts import amount
from marith.scoring.checkpoints.kinds import CLASSES, CLASSIFIER, LANGUAGE_MODEL, refusing
from marith.scoring.checkpoints.locate import EMBEDDED, WEIGHTS, locate, require_tokenizer
from marith.scoring.checkpoints.placing import device_for, dtype_for, on_cpu
from marith.scoring.checkpoints.shared_weights import independent, nbytes, weights
from marith.scoring.checkpoints.sizes import check_size
from marith.scoring.cpu_threads import threads_of
from marith.scoring.free_memory import returning_freed
from marith.scoring.layouts.laying_out import lay_out, lay_out_copy
from marith.scoring.layouts.quantising import loading_in
from marith.scoring.prompting.tokenizer import Vocabulary

_ANY = 2048  # tokens of context where a configuration does not say
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Checkpoint:
    """A loaded model with its tokenizer's vocabulary."""

    name: str
    model: Any
    vocabulary: Vocabulary
    context_length: int
    quantize: str | None = None

    @property
    def summary(self) -> str:
        """The model's class, size in memory, type of numbers and device."""
        kind, dtype = type(self.model).__name__, str(self.model.dtype).removeprefix("torch.")
        numbers = f"{self.quantize} and {dtype}" if self.quantize else dtype
        return f"{kind}, {amount(nbytes(weights(self.model)))}, {numbers} on {self.model.device}"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where and how weights are loaded; None leaves the choice to the loader."""

    device: str | None = None
    dtype: str | None = None
    revision: str | None = None
    context_length: int | None = None
    quantize: str | None = None

    def __post_init__(self) -> None:
        quantize_name("quantize", self.quantize, ModelError)
        length = self.context_length
        if length is not None and (isinstance(length, bool) or not isinstance(length, int)):
            raise ModelError(f"context_length is a whole number of tokens, not {length!r:.60}")


_kept: WeakValueDictionary[tuple[str, str, Placement], Checkpoint] = WeakValueDictionary()


def language_model(name: str | PathLike[str], placement: Placement) -> Checkpoint:
    """A causal language model by embedded name, directory or hub id; packed where oneDNN can."""
    name = fspath(name) if isinstance(name, PathLike) else name
    return _cached(LANGUAGE_MODEL, name, placement)


def base_model(model: Any, tokenizer: Any, placement: Placement) -> Checkpoint:
    """A causal language model by name, or one that is loaded already with its tokenizer."""
    if not isinstance(model, (str, PathLike)):
        return from_loaded(model, tokenizer, placement)
    if tokenizer is not None:
        raise ModelError(f"{model!r} brings its own tokenizer; leave out tokenizer=")
    return language_model(model, placement)


def classifier(name: str, placement: Placement) -> Checkpoint:
    """A sequence classifier by embedded name, directory or hub id."""
    return _cached(CLASSIFIER, name, replace(placement, quantize=None))  # stays in floats


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
    changes is a copy, which shares its weights unless they are packed or fused, or it writes to
    them.
    """
    begun = time.monotonic()
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "config"):
        named = "a name, a directory, a hub id or a loaded model of transformers"
        raise ModelError(f"a model is {named}, not {shown(model)}")
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
    with threads_of(model):
        unchanging = independent(model, partial(kinds.try_out, name))
        layout = lay_out_copy(
            unchanging, model, on_cpu(placement.quantize, torch.device(str(model.device)))
        )
    return _logged(_checkpoint(name, unchanging, tokenizer, placement), begun, layout)


def _cached(kind: str, name: str, placement: Placement) -> Checkpoint:
    device, where = device_for(placement.device), locate(name)
    on_cpu(placement.quantize, device)
    dtype = _dtype(name, where, device, placement)
    resolved = replace(placement, device=str(device), dtype=str(dtype))
    key = kind, where, resolved
    checkpoint = _kept.get(key)
    if checkpoint is None:
        checkpoint = _kept[key] = _load(kind, name, key[1], resolved)
    return checkpoint


def _dtype(name: str, where: str, device: torch.device, placement: Placement) -> torch.dtype:
    dtype, revision = placement.dtype, placement.revision
    return dtype_for(name, where, device, dtype, revision, placement.quantize)


def _load(kind: str, name: str, where: str, placement: Placement) -> Checkpoint:
    begun, layout = time.monotonic(), ""
    with returning_freed() if placement.quantize else nullcontext():
        model, tokenizer = _read(kind, name, where, placement)
        with threads_of(model):
            if kind == LANGUAGE_MODEL:
                kinds.try_out(name, model)
            layout = lay_out(model, placement.quantize)
    return _logged(_checkpoint(name, model, tokenizer, placement), begun, layout)


def _logged(checkpoint: Checkpoint, begun: float, layout: str) -> Checkpoint:
    seconds = time.monotonic() - begun
    said = ", ".join(filter(None, (checkpoint.summary, layout)))
    _log.info("loaded %r in %.2f s: %s", checkpoint.name, seconds, said)
    return checkpoint


def _read(
    kind: str,
    name: str,
    where: str,
    placement: Placement,
    fits: Callable[[Any], None] | None = None,
) -> tuple[Any, Any]:
    """What the files hold, model and tokenizer, with every weight that the model has."""
    device = device_for(placement.device)
    dtype = _dtype(name, where, device, placement)
    given = {"revision": placement.revision, "trust_remote_code": False}
    _require_found(name, where, placement.revision)
    with refusing(f"cannot load the model {name!r}"):
        stored, _ = PreTrainedConfig.get_config_dict(where, revision=placement.revision)
        kinds.check_code(name, stored)
        config = AutoConfig.from_pretrained(where, **given)
        kinds.check_kind(name, config, kind)
        _context_length(name, placement, _stated_positions(config))
        if fits is not None:
            fits(config)
        home = where if _has_tokenizer(where) else str(WEIGHTS / EMBEDDED["pocket"])
        require_tokenizer(name, Path(home))
        tokenizer = AutoTokenizer.from_pretrained(home, **given)
        check_size(name, where, placement.revision, CLASSES[kind], config)
        with _progress(shown=name not in EMBEDDED):
            files: dict[str, Any] = {"use_safetensors": True, "output_loading_info": True, **given}
            if placement.quantize is not None:
                files["quantization_config"] = loading_in(placement.quantize)
            model, report = CLASSES[kind].from_pretrained(
                where, config=config, dtype=dtype, **files
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


def _require_found(name: str, where: str, revision: str | None) -> None:
    """Raises ModelError for a model that is nowhere, and for a directory with a revision."""
    if revision is not None and name in EMBEDDED:
        raise ModelError(f"{name!r} is in the package and has no revisions; leave out revision")
    if revision is not None and Path(where).is_dir():
        problem = f"revision={revision!r} is of a model on the hub"
        raise ModelError(f"{problem}, and {name!r} is a directory; leave out revision")
    hub_lookup.require(where, revision)


@contextmanager
def _progress(shown: bool) -> Iterator[None]:
    """Bars are for what takes long: an embedded model loads before one could be read."""
    hide = not shown and transformers_logging.is_progress_bar_enabled()
    if hide:
        transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if hide:
            transformers_logging.enable_progress_bar()


def _checkpoint(name: str, model: Any, tokenizer: Any, placement: Placement) -> Checkpoint:
    config = model.config.get_text_config()
    length = _context_length(name, placement, positions_of(model))
    with refusing(f"cannot use the tokenizer of {name!r}"):
        vocabulary = Vocabulary(tokenizer, config.vocab_size, _ends(name, model))
    return Checkpoint(name, model, vocabulary, length, placement.quantize)


def _context_length(name: str, placement: Placement, positions: int) -> int:
    """How many tokens the model reads: those that are asked for, or all of its positions."""
    length = positions if placement.context_length is None else placement.context_length
    if not 2 <= length <= positions:
        raise ModelError(f"the context of {name!r} holds {positions} tokens, not {length!r}")
    return length


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
    positions = _stated_positions(model.config)
    for name, module in model.named_modules():
        padding = getattr(module, "padding_idx", None)
        if name.endswith("position_embeddings") and padding is not None:
            positions = min(positions, module.weight.shape[0] - padding - 1)
    return positions


def _stated_positions(config: Any) -> int:
    """How many tokens a model reads at most, as its configuration says."""
    stated = getattr(config.get_text_config(), "max_position_embeddings", None)
    return stated if isinstance(stated, int) and stated > 0 else _ANY


def _has_tokenizer(where: str) -> bool:
    """Embedded classifiers share the pocket tokenizer; all others bring their own."""
    return Path(where).parent != WEIGHTS.resolve() or (Path(where) / "tokenizer.json").is_file()
