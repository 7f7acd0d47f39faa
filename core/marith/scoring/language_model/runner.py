"""Which runner a model takes: one that keeps what it has read by lane, or a plain one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

from marith.request.limits import CACHE_BYTES
from marith.scoring.kv_cache.layer_masks import LayerMasks, unread_kinds
from marith.scoring.kv_cache.stores import RectangleStore, SegmentStore
from marith.scoring.language_model.cached_runner import CachedRunner
from marith.scoring.language_model.lanewise_runner import LanewiseRunner
from marith.scoring.language_model.model_passes import ModelPasses
from marith.scoring.language_model.plain_runner import PlainRunner
from marith.scoring.llama_cpp.ggml_model import GGMLModel
from marith.scoring.llama_cpp.llama_cpp_runner import LlamaCppRunner
from marith.scoring.notices import warn
from marith.scoring.probing.probe import DIFFER, compare, why_inexact
from marith.scoring.rotary.length_runner import LengthRunner
from marith.scoring.rotary.rotary_scaling import rotary_scaling

Cached: TypeAlias = CachedRunner | LanewiseRunner
OfModel: TypeAlias = Cached | PlainRunner | LengthRunner
Runner: TypeAlias = OfModel | LlamaCppRunner
Maker: TypeAlias = Callable[[ModelPasses], Cached]
_log = logging.getLogger(__name__)


def start_runner(
    model: Any,
    vocab: int,
    context_length: int,
    cache_bytes: int = CACHE_BYTES,
    capture: bool | None = None,
    name: str = "",
    holes: Sequence[int] = (),
) -> Runner:
    """The runner of a model, which is probed: its cached passes must be its uncached ones.

    A model without such a cache gets the plain runner, and a warning says so by its `name`.
    `capture` runs passes for single tokens at fixed shapes: None where the model is on a GPU.
    `holes` are numbers below `vocab` that are no tokens, and impossible. Raises ModelError for a
    model that is not causal.
    """
    if isinstance(model, GGMLModel):
        return LlamaCppRunner(model, vocab, cache_bytes, name, holes)
    begun = time.monotonic()
    passes = ModelPasses(model, vocab, name, holes)
    runner = _probed(passes, context_length, cache_bytes, capture)
    runner.passes.forget_counts()
    mode = "without a cache" if runner.plain else "with a cache"
    _log.info("%r runs %s, probed in %.2f s", passes.name, mode, time.monotonic() - begun)
    return runner


def _probed(
    passes: ModelPasses, context_length: int, cache_bytes: int, capture: bool | None
) -> OfModel:
    """A runner with a cache, captured or not, or a plain one."""
    on_gpu = passes.device.type == "cuda" and not getattr(passes.model, "hf_device_map", None)
    captures = on_gpu if capture is None else capture
    runner, reason = _cached(passes, context_length, cache_bytes, captures)
    if runner is None:
        plain = PlainRunner(passes, context_length)
        warn(f"{passes.name!r} runs without a cache, and so slower: {reason}")
        return _by_length(plain, context_length)
    if isinstance(by_length := _by_length(runner, context_length), LengthRunner):
        _say_what_is_read_anew(passes, context_length)
        return by_length  # not captured: a graph knows only the frequencies that it was made with
    if isinstance(runner, CachedRunner) and captures:
        runner.capture()
        if reason := compare(runner):
            runner.give_up_capture(reason)
    return runner


def _by_length(runner: Cached | PlainRunner, context_length: int) -> OfModel:
    """The runner, by the length of each text where the model's rotary frequencies depend on it."""
    scaling = rotary_scaling(runner.passes.model.config)
    return LengthRunner(runner, scaling) if scaling.reached(context_length) else runner


def _say_what_is_read_anew(passes: ModelPasses, context_length: int) -> None:
    steady = rotary_scaling(passes.model.config).steady
    if steady is not None and steady < context_length:
        warn(
            f"{passes.name!r} reads a text of more than {steady} tokens anew with each token, and "
            "so slower: its rotary frequencies depend on the text's length"
        )


def _cached(
    passes: ModelPasses, context_length: int, cache_bytes: int, captures: bool
) -> tuple[Cached | None, str]:
    """The fastest runner with a cache whose answers are the uncached model's.

    Where there is none, why the last of them is not right, which asks the least of a model; of one
    that answers, if any does.
    """
    reasons: list[str] = []
    for make in _makers(passes, context_length, cache_bytes, captures):
        try:
            runner = make(passes)
            differ = partial(_differ, runner, make, context_length)
            reason = why_inexact(passes.model, context_length, differ)
        except Exception as error:  # whatever a configuration lacks that a runner needs
            reasons.append(f"no cache can be made for it ({type(error).__name__}: {error})")
            continue
        if not reason:
            return runner, ""
        reasons.append(reason)
    if not {"past_key_values", "cache_params"} & passes.arguments:
        return None, "its code has no argument for a cache (`past_key_values` or `cache_params`)"
    answered = [reason for reason in reasons if DIFFER in reason]
    return None, (answered or reasons)[-1]


def _differ(runner: Cached, make: Maker, context_length: int, model: Any, extra: int) -> str:
    """How cached passes of the runner's model, or of a small one of its kind, differ."""
    if model is not runner.passes.model:
        runner = make(ModelPasses(model, int(model.config.get_text_config().vocab_size)))
    return compare(_by_length(runner, context_length), extra)


def _makers(
    passes: ModelPasses, context_length: int, cache_bytes: int, captures: bool
) -> Iterator[Maker]:
    """What makes a runner with a cache of passes, the fastest first."""
    model = passes.model
    if not unread_kinds(model):
        candidates = range(len(LayerMasks.candidates(model)))
        if passes.device.type == "cpu" and not captures:
            for choice in candidates:
                yield partial(_by_segments, choice, context_length, cache_bytes)
        for choice in candidates:
            yield partial(_by_slots, choice, cache_bytes)
    for places in (False, True) if "position_ids" in passes.arguments else (False,):
        for pieces in (True, False):
            for joins in (True, False):
                yield partial(
                    LanewiseRunner,
                    most_bytes=cache_bytes,
                    pieces=pieces,
                    joins=joins,
                    places=places,
                )


def _by_segments(
    choice: int, context_length: int, cache_bytes: int, passes: ModelPasses
) -> CachedRunner:
    masks = LayerMasks.candidates(passes.model)[choice]
    store = SegmentStore(passes.model, masks, cache_bytes, context_length)
    return CachedRunner(passes, store)


def _by_slots(choice: int, cache_bytes: int, passes: ModelPasses) -> CachedRunner:
    masks = LayerMasks.candidates(passes.model)[choice]
    return CachedRunner(passes, RectangleStore(passes.model, masks, cache_bytes))
