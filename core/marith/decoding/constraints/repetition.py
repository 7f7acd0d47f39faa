"""The repetition penalty (Keskar et al., 2019) on composed log-probabilities."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class RepetitionPenalty:
    """Multiplies the log-probabilities of tokens that a text contains by `factor`."""

    factor: float

    def apply(self, rows: Tensor, text: Sequence[int], places: Sequence[int]) -> Tensor:
        """Penalise each row by the tokens before its place; the result is normalised."""
        penalised_rows = [
            penalised(row[None], text[:place], self.factor)
            for row, place in zip(rows, places, strict=True)
        ]
        return torch.cat(penalised_rows)


def penalised(logprobs: Tensor, tokens: Collection[int], factor: float) -> Tensor:
    """Rows [positions, vocab] that all follow the same tokens, penalised and normalised."""
    if not tokens:
        return logprobs
    seen = torch.tensor(sorted(set(tokens)), device=logprobs.device)
    logprobs = logprobs.clone()
    logprobs[:, seen] *= factor
    return torch.log_softmax(logprobs, dim=-1)
