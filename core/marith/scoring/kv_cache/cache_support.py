"""Which models keep a past that can be addressed by lanes and rolled back, and how they see it."""

from __future__ import annotations

from typing import Any, NamedTuple

from marith.scoring.kv_cache.layer_masks import WIDTHS

# The kinds of layers whose keys a mask can choose.
_READ = {"full_attention", "global", *WIDTHS}
_SCALED = {"longrope": "original_max_position_embeddings", "dynamic": "max_position_embeddings"}


class Limit(NamedTuple):
    """Texts of more than `tokens` tokens are read without a cache, and why."""

    tokens: int
    reason: str


def unread_kinds(model: Any) -> str:
    """What kinds of layers need another cache than keys and values by lanes; empty if none do."""
    kinds = sorted(_kinds(model.config.get_text_config()))
    return f"it has layers of kind {', '.join(kinds)}" if kinds else ""


def rotation_limit(model: Any, context_length: int) -> Limit | None:
    """Beyond how many tokens a model's rotary positions forbid any cache, if they do."""
    text, limits = model.config.get_text_config(), []
    for turning in _rotations(text):
        if key := _SCALED.get(turning.get("rope_type", "")):
            most = turning.get(key) or getattr(text, key)
            limits.append(
                Limit(most, "its rotary frequencies depend on the longest text of a pass")
            )
    return min((limit for limit in limits if limit.tokens < context_length), default=None)


def _kinds(text: Any) -> set[str]:
    """The kinds of layers whose keys and values are not read by our masks."""
    listed = getattr(text, "layer_types", None) or getattr(text, "attention_layers", None)
    return set(listed or ()) - _READ


def _rotations(text: Any) -> list[dict[str, Any]]:
    """The rotary parameters of a model, or of each kind of layer."""
    given = getattr(text, "rope_parameters", None) or {}
    return [given, *(value for value in given.values() if isinstance(value, dict))]
