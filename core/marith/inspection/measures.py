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
    if ordered < min(size, RANKED):
        _rank_further(logprobs, asked, ranks, ordered)
    count = min(count, size)
    return Ranking(near.indices[:, :count], near.values[:, :count], ranks)


def _rank_further(logprobs: Tensor, asked: Tensor, ranks: Tensor, known: int) -> None:
    """Correct the ranks of tokens that are not among the `known` likeliest of their row."""
    far = ranks > known
    columns = far.any(dim=0).nonzero()[:, 0].tolist()
    if len(columns) == 1:  # mostly that of the text's token: to count costs less than to order
        (column,) = columns
        rows = far[:, column].nonzero()[:, 0]
        likelier = logprobs[rows] > asked[rows, column, None]
        ranks[rows, column] = likelier.sum(dim=-1, dtype=torch.int32).to(ranks.dtype) + 1
    elif columns:
        rows = far.any(dim=-1).nonzero()[:, 0]
        values = logprobs[rows].topk(min(RANKED, logprobs.shape[-1]), dim=-1).values
        ranks[rows] = _ranks(values, asked[rows])


def _ranks(ordered: Tensor, asked: Tensor) -> Tensor:
    """1 + how many of each row's descending values are greater than each value asked for."""
    return torch.searchsorted(-ordered, -asked.contiguous()) + 1


def entropies(logprobs: Tensor) -> Tensor:
    """Shannon's entropy of each row in nats, [positions]."""
    return -_expected(logprobs.exp(), logprobs)


def divergences_from(logprobs: Tensor, composed: Tensor) -> Tensor:
    """KL(P ‖ composed) of each row in nats, [positions]; ∞ where it forbids what P allows."""
    return _expected(logprobs.exp(), logprobs - composed).clamp(min=0.0)


def _expected(masses: Tensor, values: Tensor) -> Tensor:
    """Σ P·x of each row, where a mass of 0 adds nothing whatever its value; `masses` is used up."""
    expected = masses.mul_(values).sum(dim=-1)
    if bool(expected.isnan().any()):  # 0·(−∞), or a value that is no number where no mass is
        expected = torch.where(masses.isnan(), 0.0, masses).sum(dim=-1)
    return expected


def finite(numbers: Sequence[float]) -> Numbers:
    """The numbers, with None for what is infinite or no number."""
    return [number if math.isfinite(number) else None for number in numbers]


def finite_rows(rows: Tensor) -> list[Numbers]:
    """The numbers of a tensor [positions, count], row by row."""
    return [finite(row) for row in rows.tolist()]
