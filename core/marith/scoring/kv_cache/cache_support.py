"""Which models keep a past that can be addressed by lanes and rolled back, and how they see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

# Where a configuration says how many tokens back a layer of a kind attends.
WINDOWS = {
    "sliding_attention": "sliding_window",
    "chunked_attention": "attention_chunk_size",
    "local": "window_size",  # GPT-Neo
}
_UNLIMITED = {"full_attention", "global"}
_SCALED = {"longrope": "original_max_position_embeddings", "dynamic": "max_position_embeddings"}


class Limit(NamedTuple):
    """Texts of more than `tokens` tokens are read without a cache, and why; 0 if all texts are."""

    tokens: int
    reason: str


def limit_of(model: Any, context_length: int) -> Limit | None:
    """What in a model's configuration forbids a cache for texts of this length, if anything."""
    limits = [limit for limit in _limits(model.config) if limit.tokens < context_length]
    return min(limits, default=None)


def _limits(config: Any) -> Iterator[Limit]:
    text = config.get_text_config()
    for kind in sorted(_kinds(text)):
        if kind not in WINDOWS:
            yield Limit(0, f"it has layers of kind {kind}")
        elif window := getattr(text, WINDOWS[kind], None):
            yield Limit(window, f"its attention slides over {window} tokens")
    for turning in _rotations(text):
        if key := _SCALED.get(turning.get("rope_type", "")):
            most = turning.get(key) or getattr(text, key)
            yield Limit(most, "its rotary frequencies depend on the longest text of a pass")


def _kinds(text: Any) -> set[str]:
    """The kinds of attention that do not see the whole text."""
    listed = getattr(text, "layer_types", None) or getattr(text, "attention_layers", None)
    if listed is None:
        listed = ["sliding_attention"] if getattr(text, "use_sliding_window", True) else []
    return set(listed) - _UNLIMITED


def _rotations(text: Any) -> list[dict[str, Any]]:
    """The rotary parameters of a model, or of each kind of layer."""
    given = getattr(text, "rope_parameters", None) or {}
    return [given, *(value for value in given.values() if isinstance(value, dict))]


def mask_dtype(model: Any) -> torch.dtype | None:
    """What a mask is made of that the model adds to its attention's scores; None for booleans."""
    additive = getattr(model.config, "_attn_implementation", "sdpa") != "sdpa"
    return model.dtype if additive else None
