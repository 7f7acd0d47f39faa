"""Which models keep a past that can be addressed by lanes and rolled back, and how they see it."""

from __future__ import annotations

from typing import Any

import torch

from marith.errors import ModelError

# What a model may raise that does not take our cache.
REFUSALS = (TypeError, ValueError, RuntimeError, AttributeError, IndexError, ModelError)


def why_plain(model: Any, context_length: int) -> str:
    """What in a model's configuration says that its past cannot be rolled back; or nothing."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    window = getattr(config, "sliding_window", None)
    windowed = getattr(config, "use_sliding_window", True) and window and window < context_length
    turning = getattr(config, "rope_parameters", None) or {}
    turns = {
        turning.get("rope_type"),
        *(v.get("rope_type") for v in turning.values() if isinstance(v, dict)),
    }
    if turns & {"dynamic", "longrope"}:
        return "its rotary frequencies hang on the longest text of a pass"
    if kinds - {"sliding_attention"}:
        return f"it has layers of kind {', '.join(sorted(kinds))}"
    return f"its attention slides over {window} tokens" if windowed else ""


def mask_dtype(model: Any) -> torch.dtype | None:
    """What a mask is made of that the model adds to its attention's scores; None for booleans."""
    additive = getattr(model.config, "_attn_implementation", "sdpa") != "sdpa"
    return model.dtype if additive else None
