"""What a model says after each prefix of a text, by transformers alone: model(prefix)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor


def logits_after(model: Any, text: Sequence[int], count: int) -> Tensor:
    """Logits [count, vocab] after each of the last `count` prefixes.

    One pass, but where the rotary frequencies of all tokens depend on how long a prefix is.
    """
    rows, done = [], len(text) - count
    with torch.inference_mode():
        for end in _ends(model.config.get_text_config(), len(text), count):
            if _resets(model):
                model(input_ids=torch.tensor([[*text[:1]]]), use_cache=False)
            ids = torch.tensor([[*text[:end]]])
            rows.append(model(input_ids=ids, use_cache=False).logits[0, done:])
            done = end
    return torch.cat(rows)


def _resets(model: Any) -> bool:
    """Whether it goes on with the frequencies of the longest text, until it reads a short one."""
    ropes = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    return bool(ropes.get("rope_type") == "dynamic")


def _ends(text: Any, length: int, count: int) -> Iterator[int]:
    """The lengths of the prefixes that are read, the last of those that are read alike."""
    ropes = getattr(text, "rope_parameters", None) or {}
    for end in range(length - count + 1, length):
        match ropes.get("rope_type"):
            case "longrope" if end == ropes["original_max_position_embeddings"]:
                yield end
            case "dynamic" if end >= text.max_position_embeddings:
                yield end
    yield length
