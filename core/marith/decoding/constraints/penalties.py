"""Penalties and biases of single tokens, on composed log-probabilities (decision 8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from marith.request.sampling import Sampling


@dataclass(frozen=True, slots=True)
class Penalties:
    """Changes each row by the tokens before its place, as a `Sampling` says."""

    sampling: Sampling

    def apply(self, rows: Tensor, text: Sequence[int], places: Sequence[int]) -> Tensor:
        """The penalised rows [positions, vocab], normalised; each follows text[:place]."""
        penalised_rows = [
            penalised(row[None], text[:place], self.sampling)
            for row, place in zip(rows, places, strict=True)
        ]
        return torch.cat(penalised_rows)


def penalised(logprobs: Tensor, tokens: Sequence[int], sampling: Sampling) -> Tensor:
    """Rows [positions, vocab] that all follow the same tokens, penalised and normalised.

    Log-probabilities of tokens that came before are multiplied (Keskar et al., 2019); then biases
    are added, and what OpenAI's presence and frequency penalties say is taken away.
    """
    counts = Counter(tokens)
    if not counts and not sampling.logit_bias:
        return logprobs
    logprobs = logprobs.clone()
    if counts:
        seen = torch.tensor([*counts], device=logprobs.device)
        times = _like(logprobs, counts.values())
        logprobs[:, seen] *= sampling.repetition_penalty
        logprobs[:, seen] -= sampling.presence_penalty + sampling.frequency_penalty * times
    if sampling.logit_bias:
        biased = dict(sampling.logit_bias)
        at = torch.tensor([*biased], device=logprobs.device)
        logprobs[:, at] += _like(logprobs, biased.values())
    return torch.log_softmax(logprobs, dim=-1)


def _like(logprobs: Tensor, numbers: Iterable[float]) -> Tensor:
    return torch.tensor([*numbers], dtype=logprobs.dtype, device=logprobs.device)
