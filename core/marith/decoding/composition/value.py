"""The value of a node of a formula: its score, its weight, and the tokens that it allows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Value:
    """A node's score [positions, vocab], finite everywhere; its weight; the tokens it allows.

    The weight is a number, or [positions, 1 or vocab] where factors depend on the context.
    `allowed` is a mask beside the score, never a very negative score: −inf in a difference
    would make NaN. None allows every token.
    """

    score: Tensor
    weight: float | Tensor
    allowed: Tensor | None = None

    def logprobs(self) -> Tensor:
        """Log P = log_softmax(score / weight) on the allowed tokens, [positions, vocab]."""
        scaled = self.score / self.weight
        if self.allowed is not None:
            scaled = scaled.masked_fill(~self.allowed, -math.inf)
        return torch.log_softmax(scaled, dim=-1)

    @classmethod
    def of(cls, logprobs: Tensor) -> Value:
        """A log-distribution [positions, vocab], of weight one; what is impossible is forbidden.

        On a CPU no mask is made where nothing is; elsewhere to ask would be to wait for the device.
        """
        if logprobs.is_cpu and bool(logprobs.amin() > -math.inf):
            return cls(logprobs, 1.0)
        allowed = logprobs > -math.inf
        return cls(logprobs.masked_fill(~allowed, 0.0), 1.0, allowed)


def both(left: Tensor | None, right: Tensor | None) -> Tensor | None:
    """The tokens that both masks allow; None allows every token."""
    if left is None or right is None:
        return right if left is None else left
    return left & right
