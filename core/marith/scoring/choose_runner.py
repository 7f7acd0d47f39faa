"""The choice of a model's runner: one with a cache, or a plain one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch

from marith.request.limits import CACHE_BYTES
from marith.scoring.cpu_threads import computing_with
from marith.scoring.notices import note_neighbors, warn
from marith.scoring.passes.cached_runner import CachedRunner
from marith.scoring.passes.chunked_prefill import PrefillLimits
from marith.scoring.passes.layer_masks import LayerMasks, layer_count, unread_kinds
from marith.scoring.passes.llama_cpp.llama_cpp_runner import LlamaCppRunner
from marith.scoring.passes.passes import CACHES, ModelPasses, Runner
from marith.scoring.passes.plain_runner import PlainRunner
from marith.scoring.passes.probe import compare, why_inexact
from marith.scoring.passes.rectangle.cuda_graphs import Captured
from marith.scoring.passes.rectangle.rectangle_cache import KVCache
from marith.scoring.passes.rectangle.rectangle_lanes import RectangleLanes
from marith.scoring.passes.segments.segment_attention import by_segments
from marith.scoring.passes.segments.segment_lanes import SegmentLanes
from marith.scoring.passes.states.state_runner import StateRunner
from marith.scoring.weights.checkpoint import Checkpoint
from marith.scoring.weights.layout.packing import results_vary
from marith.scoring.weights.llama_cpp.ggml import GGMLModel
from marith.scoring.weights.shared_weights import nbytes, weights

Cached: TypeAlias = CachedRunner | StateRunner
Maker: TypeAlias = Callable[[ModelPasses], Cached]
_log = logging.getLogger(__name__)


def runner_of(
    checkpoint: Checkpoint,
    cache_bytes: int = CACHE_BYTES,
    max_batched_tokens: int | None = None,
) -> Runner:
    """Return the runner of a checkpoint's language model (see `start_runner`)."""
    with computing_with(checkpoint.threads):
        return start_runner(
            checkpoint.model,
            checkpoint.vocabulary.size,
            checkpoint.context_length,
            cache_bytes,
            name=checkpoint.name,
            holes=checkpoint.vocabulary.holes,
            max_batched_tokens=max_batched_tokens,
        )


def start_runner(
    model: Any,
    vocab: int,
    context_length: int,
    cache_bytes: int = CACHE_BYTES,
    capture: bool | None = None,
    name: str = "",
    holes: Sequence[int] = (),
    max_batched_tokens: int | None = None,
) -> Runner:
    """Return the runner of a model, after comparing its cached passes with uncached ones.

    A model without exact cached passes gets a plain runner, and a warning with its `name`. If
    `capture` is True, passes over single tokens run at fixed shapes, on a GPU as CUDA graphs; None
    means True for a model on one GPU. `holes` are numbers below `vocab` that are not tokens; their
    probability is 0. A call reads at most `max_batched_tokens` tokens of long texts; None means the
    number that suits the device. Raises ModelError for a model that is not causal.
    """
    if isinstance(model, GGMLModel):
        note_neighbors(f"{name!r} in llama.cpp")
        return LlamaCppRunner(model, vocab, cache_bytes, name, holes, max_batched_tokens)
    started = time.monotonic()
    passes = ModelPasses(model, vocab, name, holes)
    # A model that is spread over devices cannot be captured as one graph.
    on_gpu = passes.device.type == "cuda" and not getattr(model, "hf_device_map", None)
    captures = on_gpu if capture is None else capture
    accelerated = passes.device.type != "cpu"
    prefill = PrefillLimits.of_device(accelerated, nbytes(weights(model)), max_batched_tokens)
    runner = _compared(passes, context_length, cache_bytes, captures, prefill)
    if captures and isinstance(runner, CachedRunner) and isinstance(runner.lanes, RectangleLanes):
        runner.captured = Captured(passes.adapted, runner.lanes.cache, runner.lanes.masks)
        if reason := compare(runner, passes):
            runner.give_up_capture(reason)
    runner.passes.forget_counts()
    _note_neighbors(runner, passes)
    mode = "without a cache" if runner.plain else "with a cache"
    _log.info("%r runs %s, probed in %.2f s", passes.name, mode, time.monotonic() - started)
    return runner


def _note_neighbors(runner: Runner, passes: ModelPasses) -> None:
    """Log it if the last bits of a text's probabilities depend on the texts that share its passes.

    Attention by segments logs it itself. A plain runner reads each text in a pass of its own.
    """
    if runner.plain:
        return
    dtype = str(passes.model.dtype).removeprefix("torch.")
    by_segments = isinstance(runner, CachedRunner) and isinstance(runner.lanes, SegmentLanes)
    # In a 16-bit type, segments compute few queries in float32 and many in the type itself.
    if not by_segments or passes.model.dtype != torch.float32:
        note_neighbors(f"passes of {passes.name!r} in {dtype}")
    elif results_vary(passes.model):
        note_neighbors(f"matrix products of {passes.name!r} in {dtype}")


def _compared(
    passes: ModelPasses,
    context_length: int,
    cache_bytes: int,
    captures: bool,
    prefill: PrefillLimits,
) -> Cached | PlainRunner:
    """Return the first exact runner: the usual one, one that reads text by text, or a plain one."""
    usual = partial(_usual, context_length, cache_bytes, captures, prefill)
    text_by_text = partial(StateRunner, most_bytes=cache_bytes, joins=False, at_once=prefill.alone)
    reasons: list[str] = []
    for make in (usual, text_by_text):
        try:
            runner = make(passes)
            differ = partial(_differ, runner, passes, make)
            reason = why_inexact(passes.model, context_length, differ)
        # Any error may come here, for example if the configuration lacks a field.
        except Exception as error:
            reason = f"no cache can be made for it ({type(error).__name__}: {error})"
        if not reason:
            if reasons:
                _log.info("%r takes a pass for each text: %s", passes.name, reasons[0])
            return runner
        reasons.append(reason)
    # If the model takes no cache, the errors above only follow from that, so this reason replaces
    # them.
    if not passes.takes_cache:
        reasons = [f"its code has no argument for a cache ({' or '.join(CACHES)})"]
    plain = PlainRunner(passes, context_length)
    warn(f"{passes.name!r} runs without a cache, which is slower: {reasons[0]}")
    return plain


def _differ(runner: Cached, passes: ModelPasses, make: Maker, model: Any, extra: int) -> str:
    """Return how cached passes differ from uncached ones, or "" if they do not."""
    if model is not passes.model:
        passes = ModelPasses(model, int(model.config.get_text_config().vocab_size))
        runner = make(passes)
    return compare(runner, passes, extra)


def _usual(
    context_length: int,
    cache_bytes: int,
    captures: bool,
    prefill: PrefillLimits,
    passes: ModelPasses,
) -> Cached:
    """Return the runner that a model's configuration and class suggest."""
    model = passes.model
    if unread_kinds(model):
        return StateRunner(passes, cache_bytes, at_once=prefill.alone)
    masks = LayerMasks.of_model(model)
    # Captured passes need the fixed addresses of a rectangle.
    if passes.device.type == "cpu" and not captures and _hands_keys_on(model):
        segments = SegmentLanes(model, masks, cache_bytes, context_length, prefill.alone)
        return CachedRunner(passes.read_by(by_segments(model)), segments, prefill)
    rows = RectangleLanes(KVCache(layer_count(model)), cache_bytes, masks, model.device)
    return CachedRunner(passes, rows, prefill)


def _hands_keys_on(model: Any) -> bool:
    """Return True if attention functions of transformers get the cache's keys unchanged.

    Models with latent keys (DeepSeek's MLA) and models whose layers share keys change them.
    """
    text = model.config.get_text_config()
    changes = getattr(text, "kv_lora_rank", None) or getattr(text, "num_kv_shared_layers", None)
    return bool(model._supports_attention_backend and not changes)
