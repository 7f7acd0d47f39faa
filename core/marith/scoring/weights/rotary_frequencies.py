"""Rotary frequencies that depend on how long a text is, and are fixed when a model is loaded.

With `longrope` (Phi-3.5, Phi-4-mini) a text that is longer than the configuration's
`original_max_position_embeddings` has other frequencies for all its tokens, so that the keys of its
beginning could not be kept. The context length decides instead, once for all texts.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor, nn

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
    rope = getattr(text, "rope_parameters", None) or {}
    kinds = [rope, *(one for one in rope.values() if isinstance(one, dict))]
    limits = [one.get(_LIMIT) or getattr(text, _LIMIT) for one in kinds if _is_long(one)]
    return min(map(int, limits), default=None)


def fix_rotary_frequencies(name: str, model: nn.Module, context_length: int) -> None:
    """Let all texts have the frequencies of a text of `context_length` tokens, in place."""
    limit = original_positions(model.config)
    if limit is None:
        return
    is_long = context_length > limit
    _log.info(_FIXED, name, "long" if is_long else "short", context_length, limit)
    if is_long:
        for module in model.modules():
            kinds = getattr(module, "rope_type", None)
            if _LONG in (kinds.values() if isinstance(kinds, dict) else [kinds]):
                _lengthen(module, context_length)


def _is_long(rope: Any) -> bool:
    return bool(rope.get("rope_type") == _LONG)


def _lengthen(module: nn.Module, length: int) -> None:
    """Give a rotary module one position more in each pass, the last of a text of `length` tokens.

    The module takes the length from the last position. What it returns for that is dropped.
    """

    def before(_module: nn.Module, args: Any, kwargs: Any) -> Any:
        options = dict(zip(("x", "position_ids", "layer_type"), args, strict=False)) | kwargs
        positions = options["position_ids"]
        last = torch.full_like(positions[..., :1], length - 1)
        return (), {**options, "position_ids": torch.cat([positions, last], dim=-1)}

    def after(_module: nn.Module, _args: Any, out: Any) -> Any:
        is_whole = isinstance(out, Tensor)
        return _without_last(out) if is_whole else tuple(_without_last(part) for part in out)

    module.register_forward_pre_hook(before, with_kwargs=True)
    module.register_forward_hook(after)


def _without_last(rotations: Tensor) -> Tensor:
    """[…, positions + 1, dim] → […, positions, dim]."""
    return rotations[..., :-1, :]
