"""Give texts of all lengths the same rotary frequencies, when a model is loaded.

With `longrope` (Phi-3.5, Phi-4-mini) a text that is longer than the configuration's
`original_max_position_embeddings` has other frequencies for all its tokens, so the cached keys of
its beginning would become invalid. Here the context length decides instead, once for all texts.
"""

from __future__ import annotations

import logging
from typing import Any

from torch import nn

_LONG, _LIMIT = "longrope", "original_max_position_embeddings"
_FIXED = (
    "%r reads all texts with the rotary frequencies of %s texts: its context_length is %d, and "
    "short texts have at most %d tokens"
)
_log = logging.getLogger(__name__)


def original_positions(config: Any) -> int | None:
    """Return the length of the longest text that has the frequencies of short texts.

    None for a model whose frequencies do not depend on the length.
    """
    text = config.get_text_config()
    limits = [rope.get(_LIMIT) or getattr(text, _LIMIT) for rope in _dependent(text)]
    return min(map(int, limits), default=None)


def fix_rotary_frequencies(name: str, model: nn.Module, context_length: int) -> None:
    """Give all texts the frequencies of a text of `context_length` tokens, in place."""
    config: Any = model.config
    limit = original_positions(config)
    if limit is None:
        return
    is_long = context_length > limit
    _log.info(_FIXED, name, "long" if is_long else "short", context_length, limit)
    if is_long:
        _make_every_text_long(config.get_text_config())


def _dependent(text: Any) -> list[dict[str, Any]]:
    """Return the rotary parameters of a configuration that depend on the length."""
    rope = getattr(text, "rope_parameters", None) or {}
    kinds = [rope, *(one for one in rope.values() if isinstance(one, dict))]
    return [one for one in kinds if one.get("rope_type") == _LONG]


def _make_every_text_long(text: Any) -> None:
    """Set the limit to 0, which every text exceeds.

    transformers compares the limit in each pass. The factors are set too, because transformers
    would divide by the limit.
    """
    if hasattr(text, _LIMIT):
        setattr(text, _LIMIT, 0)
    for rope in _dependent(text):
        rope |= {_LIMIT: 0, "factor": 1.0, "attention_factor": 1.0}
