"""Which runner a model takes: one that keeps what it has read by lane, or a plain one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

from marith.request.limits import CACHE_BYTES
from marith.scoring.kv_cache.cache_support import rotation_limit, unread_kinds
from marith.scoring.kv_cache.layer_masks import LayerMasks
from marith.scoring.kv_cache.stores import RectangleStore, SegmentStore
from marith.scoring.language_model.cached_runner import CachedRunner
from marith.scoring.language_model.lanewise_runner import LanewiseRunner
from marith.scoring.language_model.model_passes import ModelPasses
from marith.scoring.language_model.plain_runner import PlainRunner
from marith.scoring.notices import warn
from marith.scoring.probing.probe import compare, why_inexact

Runner: TypeAlias = CachedRunner | LanewiseRunner | PlainRunner
Maker: TypeAlias = Callable[[ModelPasses], CachedRunner | LanewiseRunner]
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
    begun = time.monotonic()
    passes = ModelPasses(model, vocab, name, holes)
    runner = _probed(passes, context_length, cache_bytes, capture)
    passes.forget_counts()
    mode = "without a cache" if runner.plain else "with a cache"
    _log.info("%r runs %s, probed in %.2f s", passes.name, mode, time.monotonic() - begun)
    return runner


def _probed(
    passes: ModelPasses, context_length: int, cache_bytes: int, capture: bool | None
) -> Runner:
    """A runner with a cache, captured or not, or a plain one."""
    limit = rotation_limit(passes.model, context_length)
    longest = context_length if limit is None else limit.tokens
    captures = passes.device.type == "cuda" if capture is None else capture
    runner, reason = _cached(passes, longest, cache_bytes, captures)
    if limit is not None or runner is None:
        advice = f"; with context_length={longest} it keeps one" if limit and runner else ""
        reason = limit.reason if limit else reason
        plain = PlainRunner(passes, context_length)
        warn(f"{passes.name!r} runs without a cache, and so slower: {reason}{advice}")
        return plain
    if isinstance(runner, CachedRunner) and captures:
        runner.capture()
        if reason := compare(runner):
            runner.give_up_capture(reason)
    return runner


def _cached(
    passes: ModelPasses, context_length: int, cache_bytes: int, captures: bool
) -> tuple[CachedRunner | LanewiseRunner | None, str]:
    """The fastest runner with a cache whose answers are the uncached model's.

    Where there is none, why the first of them is not right.
    """
    first = unread_kinds(passes.model)
    for make in _makers(passes.model, context_length, cache_bytes, captures):
        runner = make(passes)
        reason = why_inexact(passes.model, context_length, partial(_differ, runner, make))
        if not reason:
            return runner, ""
        first = first or reason
    return None, first


def _differ(runner: CachedRunner | LanewiseRunner, make: Maker, model: Any, extra: int) -> str:
    """How cached passes of the runner's model, or of a small one of its kind, differ."""
    if model is not runner.passes.model:
        runner = make(ModelPasses(model, int(model.config.get_text_config().vocab_size)))
    return compare(runner, extra)


def _makers(model: Any, context_length: int, cache_bytes: int, captures: bool) -> Iterator[Maker]:
    """What makes a runner with a cache of passes, the fastest first."""
    if not unread_kinds(model):
        candidates = range(len(LayerMasks.candidates(model)))
        if model.device.type == "cpu" and not captures:
            for choice in candidates:
                yield partial(_by_segments, choice, context_length, cache_bytes)
        for choice in candidates:
            yield partial(_by_slots, choice, cache_bytes)
    for pieces in (True, False):
        for joins in (True, False):
            yield partial(LanewiseRunner, most_bytes=cache_bytes, pieces=pieces, joins=joins)


def _by_segments(
    choice: int, context_length: int, cache_bytes: int, passes: ModelPasses
) -> CachedRunner:
    masks = LayerMasks.candidates(passes.model)[choice]
    store = SegmentStore(passes.model, masks, cache_bytes, context_length)
    return CachedRunner(passes, store)


def _by_slots(choice: int, cache_bytes: int, passes: ModelPasses) -> CachedRunner:
    masks = LayerMasks.candidates(passes.model)[choice]
    return CachedRunner(passes, RectangleStore(passes.model, masks, cache_bytes))
