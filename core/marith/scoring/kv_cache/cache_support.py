"""Which models keep a past that can be addressed by lanes and rolled back, and how they see it."""

from __future__ import annotations

from typing import Any

from marith.scoring.kv_cache.layer_masks import WIDTHS

# The kinds of layers whose keys a mask can choose.
_READ = {"full_attention", "global", *WIDTHS}


def unread_kinds(model: Any) -> str:
    """What kinds of layers need another cache than keys and values by lanes; empty if none do."""
    kinds = sorted(_kinds(model.config.get_text_config()))
    return f"it has layers of kind {', '.join(kinds)}" if kinds else ""


def _kinds(text: Any) -> set[str]:
    """The kinds of layers whose keys and values are not read by our masks."""
    listed = getattr(text, "layer_types", None) or getattr(text, "attention_layers", None)
    return set(listed or ()) - _READ
