"""What a model is asked, and what comes back."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from marith.errors import ModelError
from marith.scoring.language_model.lora import Adapter


@dataclass(frozen=True, slots=True)
class Asked:
    """The log-probabilities after the last `count` prefixes of `tokens`, for one lane.

    `adapter` changes the weights that this lane is read with; `exits` are layers after which the
    model should speak too.
    """

    lane: Hashable
    tokens: list[int]
    count: int = 1
    adapter: Adapter | None = None
    exits: tuple[int, ...] = ()

    def beside(self, other: Asked) -> Asked:
        """This question and another about the same text, as one."""
        exits = tuple(sorted({*self.exits, *other.exits}))
        return replace(self, count=max(self.count, other.count), exits=exits)


@dataclass(slots=True)
class Answer:
    """Log-probabilities [count, vocab], the passes they took, and how many tokens were at hand.

    `exits` holds those of early exits, by layer.
    """

    logprobs: Tensor
    exits: dict[int, Tensor] = field(default_factory=dict)
    passes: set[int] = field(default_factory=set)
    cached: int = 0


def to_logprobs(logits: Tensor, vocab: int, holes: Tensor) -> Tensor:
    """float32 before any arithmetic, whatever the model computes in; holes are impossible.

    Raises ModelError for what is not a number.
    """
    logits = logits[..., :vocab].float()
    if len(holes):
        logits = logits.index_fill(-1, holes, -math.inf)
    logprobs = torch.log_softmax(logits, dim=-1)
    if bool(logprobs.isnan().any()):
        raise ModelError("the model computed what is not a number (NaN)")
    return logprobs
