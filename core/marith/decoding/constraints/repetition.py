"""The repetition penalty (Keskar et al., 2019) on composed log-probabilities."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class RepetitionPenalty:
    """Log-probabilities of tokens that a text contains are multiplied by `factor`."""

    factor: float

    def apply(self, rows: Tensor, text: Sequence[int], places: Sequence[int]) -> Tensor:
        """Each row by the tokens before its own place; normalised."""
        found = [
            penalised(row[None], text[:place], self.factor)
            for row, place in zip(rows, places, strict=True)
        ]
        return torch.cat(found)


def penalised(logprobs: Tensor, tokens: Collection[int], factor: float) -> Tensor:
    """The rows [positions, vocab], all after the same tokens, normalised."""
    if not tokens:
        return logprobs
    seen = torch.tensor(sorted(set(tokens)), device=logprobs.device)
    logprobs = logprobs.clone()
    logprobs[:, seen] *= factor
    return torch.log_softmax(logprobs, dim=-1)
