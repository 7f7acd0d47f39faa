"""Ranks, likeliest tokens, entropies and divergences of log-distributions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from marith.request.inspected.inspected_position import RANKED

NEAR = 64  # most ranks that are asked for are among these
Numbers: TypeAlias = "list[float | None]"


@dataclass(slots=True)
class Ranking:
    """Likeliest tokens of log-distributions [positions, vocab], and ranks of some others.

    `best` and `best_logprobs` are [positions, count], best first; `ranks` is [positions, tokens]
    for the tokens that were asked for, `RANKED` + 1 for more than that.
    """

    best: Tensor
    best_logprobs: Tensor
    ranks: Tensor


def ranking(logprobs: Tensor, tokens: Tensor, count: int) -> Ranking:
    """The `count` likeliest tokens of each row, and 1 + how many are likelier than each token.

    `tokens` is [positions, tokens]. Of most tokens the rank is among the first few, which cost less
    to order.
    """
    size = logprobs.shape[-1]
    near = logprobs.topk(min(max(NEAR, count), size), dim=-1)
    asked = logprobs.gather(-1, tokens)
    ranks = _ranks(near.values, asked)
    ordered = near.values.shape[-1]
    far = (ranks > ordered).any(dim=-1).nonzero()[:, 0]
    if len(far) and ordered < min(size, RANKED):
        values = logprobs[far].topk(min(RANKED, size), dim=-1).values
        ranks[far] = _ranks(values, asked[far])
    count = min(count, size)
    return Ranking(near.indices[:, :count], near.values[:, :count], ranks)


def _ranks(ordered: Tensor, asked: Tensor) -> Tensor:
    """1 + how many of each row's descending values are greater than each value asked for."""
    return torch.searchsorted(-ordered, -asked.contiguous()) + 1


def entropies(logprobs: Tensor) -> Tensor:
    """Shannon's entropy of each row in nats, [positions]."""
    return -(logprobs.exp() * logprobs.clamp(min=-1e30)).sum(dim=-1)


def divergences_from(logprobs: Tensor, composed: Tensor) -> Tensor:
    """KL(P ‖ composed) of each row in nats, [positions]; ∞ where it forbids what P allows."""
    difference = torch.where(logprobs > -math.inf, logprobs - composed, 0.0)
    masses = logprobs.exp()
    # A mass that has rounded to zero beside −∞ would make NaN.
    nats = torch.where(masses > 0, masses * difference, 0.0).sum(dim=-1)
    return nats.clamp(min=0.0)


def finite(numbers: Sequence[float]) -> Numbers:
    """The numbers, with None for what is infinite or no number."""
    return [number if math.isfinite(number) else None for number in numbers]


def finite_rows(rows: Tensor) -> list[Numbers]:
    """The numbers of a tensor [positions, count], row by row."""
    return [finite(row) for row in rows.tolist()]
