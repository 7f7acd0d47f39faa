"""The logits of a model after each prefix of a text, by transformers alone: model(prefix)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def logits_after(model: Any, text: Sequence[int], count: int, as_part_of: int = 0) -> Tensor:
    """Return logits [count, vocab] after each of the last `count` prefixes.

    The text is read as the beginning of a text of `as_part_of` tokens, if it is shorter.
    """
    ids = [*text, *[0] * (as_part_of - len(text))]
    with torch.inference_mode():
        logits: Tensor = model(input_ids=torch.tensor([ids]), use_cache=False).logits
    return logits[0, len(text) - count : len(text)]
