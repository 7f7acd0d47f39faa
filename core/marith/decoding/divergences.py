"""Divergences, entropy and similar measures of log-distributions, and `balance`."""

from __future__ import annotations

import math

import torch
from torch import Tensor

LEAST_SHARE = 1e-7
HALVINGS = 40  # number of times that the interval of the balance is halved
FURTHEST = 1e6  # nats, in place of an infinite divergence


def jensen_shannon(first: Tensor, second: Tensor) -> Tensor:
    """Return the Jensen-Shannon divergence in bits, [positions, 1].

    `first` and `second` are log-distributions [positions, vocab].
    """
    middle = torch.logaddexp(first, second) - math.log(2)
    nats = 0.5 * (_kl(first, middle) + _kl(second, middle))
    return (nats / math.log(2)).clamp(0.0, 1.0)


def renyi(first: Tensor, second: Tensor, order: float) -> Tensor:
    """Return 1/(α−1) · log Σ P^α Q^(1−α) for an order α in (0, 1), in nats, [positions, 1].

    For distributions that share no token the divergence is infinite, and the result is `FURTHEST`.
    """
    shared = torch.logsumexp(order * first + (1 - order) * second, dim=-1, keepdim=True)
    return torch.clamp(shared / (order - 1), 0.0, FURTHEST)


def concentration(kind: str, logprobs: Tensor) -> Tensor:
    """Return how concentrated a distribution is, [positions, 1].

    `kind` is "entropy" (in nats), "max_prob" or "margin". `logprobs` is the log-distribution. The
    "max_prob" is the probability of the likeliest token, and the "margin" is its lead over the
    second.
    """
    masses = logprobs.exp()
    if kind == "entropy":
        return torch.sum(torch.special.entr(masses), dim=-1, keepdim=True)
    best = masses.topk(min(2, masses.shape[-1]), dim=-1).values
    first: Tensor = best[:, :1]
    return first if kind == "max_prob" else first - best[:, 1:2].sum(dim=-1, keepdim=True)


def balance(first: Tensor, second: Tensor, lead: Tensor) -> Tensor:
    """Return the b that minimises maxᵢ KL(P ‖ Qᵢ) − Lᵢ over P ∝ Q₁^b Q₂^(1−b), [positions, 1].

    b is the share of Q₁. `lead` is L₁ − L₂, the difference of the models' log-likelihoods of the
    text so far. By duality, b is the root of E_P[log Q₁ − log Q₂] + L₁ − L₂, which increases with b
    (Abad et al., 2024).
    """
    shared = (first > -math.inf) & (second > -math.inf)
    gap = torch.where(shared, first - second, 0.0).double()
    # The lead is NaN, −∞ − (−∞), if both models forbid the text so far.
    lead = lead.nan_to_num(0.0)
    low = torch.zeros_like(lead, dtype=torch.float64)
    high = torch.ones_like(low)

    def slope(share: Tensor) -> Tensor:
        mixed = torch.where(shared, second + share * gap, -math.inf)
        expected: Tensor = (torch.softmax(mixed, dim=-1) * gap).sum(dim=-1, keepdim=True)
        return expected + lead

    # If the slope has no root in the interval, the least value is at one end.
    low, high = torch.where(slope(high) <= 0, 1.0, low), torch.where(slope(low) >= 0, 0.0, high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        over = slope(middle) > 0
        low, high = torch.where(over, low, middle), torch.where(over, middle, high)
    # The share is never 0 or 1, so a token that one model forbids stays forbidden.
    share = (low + high) / 2
    return share.clamp(LEAST_SHARE, 1 - LEAST_SHARE).to(first.dtype)


def _kl(first: Tensor, second: Tensor) -> Tensor:
    """Return Σ P (log P − log Q) over the tokens that P allows, [positions, 1]."""
    difference: Tensor = torch.where(first > -math.inf, first - second, 0.0)
    return (first.exp() * difference).sum(dim=-1, keepdim=True)
