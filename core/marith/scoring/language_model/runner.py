"""Which runner a model takes: one that keeps what it has read by lane, or a plain one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from marith.request.limits import CACHE_BYTES
from marith.scoring.kv_cache.cache_support import Limit, limit_of
from marith.scoring.language_model.cached_runner import CachedRunner
from marith.scoring.language_model.model_passes import ModelPasses
from marith.scoring.language_model.plain_runner import PlainRunner
from marith.scoring.language_model.probe import SHORT, compare, why_inexact
from marith.scoring.notices import warn

Runner: TypeAlias = CachedRunner | PlainRunner


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
    passes = ModelPasses(model, vocab, name, holes)
    runner = CachedRunner(passes, cache_bytes)
    limit = limit_of(model, context_length) or _measured_limit(runner, context_length)
    if limit is not None:
        remedy = limit.tokens >= SHORT and _measured_limit(runner, limit.tokens) is None
        advice = f"; with context_length={limit.tokens} it keeps one" if remedy else ""
        plain = PlainRunner(passes, context_length)
        warn(f"{passes.name!r} runs without a cache, and so slower: {limit.reason}{advice}")
        passes.forget_counts()
        return plain
    if passes.device.type == "cuda" if capture is None else capture:
        runner.capture()
        if reason := compare(runner):
            runner.give_up_capture(reason)
    passes.forget_counts()
    return runner


def _measured_limit(runner: CachedRunner, context_length: int) -> Limit | None:
    """What a comparison of cached with uncached passes finds wrong."""

    def differ(model: Any, extra: int) -> str:
        """How those of this model, or of a small one of its kind, differ."""
        if model is runner.passes.model:
            return compare(runner, extra)
        vocab = int(model.config.get_text_config().vocab_size)
        return compare(CachedRunner(ModelPasses(model, vocab)), extra)

    reason = why_inexact(runner.passes.model, context_length, differ)
    return Limit(0, reason) if reason else None
