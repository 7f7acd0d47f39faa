"""Sums of log-probabilities whose factors are numbers: the usual formula, and the fastest."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce

import torch
from torch import Tensor

from marith.formula.tree.terms import Term
from marith.tensor_rows import has_nan


def weighted_sum(rows: Mapping[Term, Tensor], shares: Mapping[Term, float]) -> Tensor:
    """Return log P = log_softmax(Σ shareᵢ · log Qᵢ), [positions, vocab] (theorem 1).

    A position at which no token is allowed is NaN. Rounding to float32 changes a result by about
    Σ |share| times the rounding of the largest log-probability. A large vocabulary is slow to read
    and to write, so on a CPU no mask of allowed tokens is made unless a term forbids a token.
    """
    parts = [rows[term] for term in shares]
    first, *others = shares.values()
    score = parts[0] * first
    for part, share in zip(parts[1:], others, strict=True):
        score.add_(part, alpha=share)
    # A term that forbids a token makes the score infinite or NaN. A score of −∞ is correct, and any
    # other makes the whole row NaN. On other devices the mask is always made, because the check
    # would wait for the device.
    if score.is_cpu and not has_nan(logprobs := torch.log_softmax(score, dim=-1)):
        return logprobs
    forbidden = reduce(torch.minimum, parts) == -math.inf
    return torch.log_softmax(score.masked_fill_(forbidden, -math.inf), dim=-1)
