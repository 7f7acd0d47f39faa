"""Masks of the tokens that a distribution keeps: by rank, by mass and by plausibility."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def top_k(logprobs: Tensor, k: int) -> Tensor:
    """Return a mask of the k likeliest tokens of each row.

    `logprobs` and the mask are [positions, vocab].
    """
    likeliest = logprobs.topk(min(k, logprobs.shape[-1]), dim=-1).indices
    kept = torch.zeros_like(logprobs, dtype=torch.bool).scatter_(-1, likeliest, True)
    return kept & (logprobs > -math.inf)


def top_p(logprobs: Tensor, p: float) -> Tensor:
    """Return a mask of the nucleus.

    The nucleus is the smallest set of likeliest tokens whose probabilities add up to at least p.

    Holtzman et al. (2020), "The curious case of neural text degeneration", equation 2. Of equally
    likely tokens, tokens with lower ids come first.
    """
    if p >= 1.0:
        return logprobs > -math.inf
    probabilities, size = logprobs.exp(), logprobs.shape[-1]
    # All tokens below this probability have less than 1 - p together, so the nucleus does not need
    # them.
    likely = probabilities >= (1 - p) / (2 * size)
    # On a GPU, counting would wait for the device, so all tokens are ordered.
    count = max(1, int(likely.sum(dim=-1).amax())) if logprobs.is_cpu else size
    ordered = probabilities.topk(count, dim=-1).values.double()
    needed = (ordered.cumsum(dim=-1) - ordered < p).sum(dim=-1, keepdim=True)
    least = ordered.gather(-1, needed.clamp(min=1) - 1)
    kept = probabilities >= least
    # If several tokens are as likely as the last token of the nucleus, only as many as are needed
    # are kept, lower ids first.
    if not logprobs.is_cpu or bool((kept.sum(dim=-1, keepdim=True) > needed).any()):
        tied = probabilities == least
        missing = needed - (kept & ~tied).sum(dim=-1, keepdim=True)
        kept &= ~tied | (tied.cumsum(dim=-1) <= missing)
    return kept & (logprobs > -math.inf)


def min_p(logprobs: Tensor, alpha: float) -> Tensor:
    """Return a mask of the tokens at least alpha times as likely as the likeliest of their row.

    This is the plausibility constraint of Li et al. (2023), equation 2. When tokens are sampled,
    this cut is known as min-p.
    """
    return logprobs >= logprobs.amax(dim=-1, keepdim=True) + math.log(alpha)


def keeps(logprobs: Tensor, tokens: Tensor, alpha: float) -> Tensor:
    """Return whether `min_p` keeps the token [rows] of each row. The result is [rows]."""
    least = logprobs.amax(dim=-1) + math.log(alpha)
    return logprobs.gather(-1, tokens[:, None])[:, 0] >= least


def common(members: Sequence[Tensor], count: int) -> Tensor:
    """Return a mask of the tokens among the k likeliest of every member.

    k is the smallest number that keeps at least `count` tokens.

    SafeDecoding (Xu et al., 2024), equation 2. Each member is [positions, vocab].
    """
    ranks = [
        torch.argsort(torch.argsort(m, dim=-1, descending=True, stable=True), dim=-1)
        for m in members
    ]
    worst = torch.stack(ranks).amax(dim=0)
    needed = worst.sort(dim=-1).values[:, min(count, worst.shape[-1]) - 1, None]
    possible = torch.stack([m > -math.inf for m in members]).all(dim=0)
    return (worst <= needed) & possible


def keep(logprobs: Tensor, kept: Tensor) -> Tensor:
    """Return the distribution restricted to the kept tokens, normalised."""
    return torch.log_softmax(logprobs.masked_fill(~kept, -math.inf), dim=-1)
