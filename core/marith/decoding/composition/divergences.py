"""How far apart two log-distributions are, how sure one is, and the balance between two."""

from __future__ import annotations

import math

import torch
from torch import Tensor

LEAST_SHARE = 1e-7
HALVINGS = 40  # of the interval in which the balance lies
FURTHEST = 1e6  # nats, which arithmetic can go on with


def jensen_shannon(first: Tensor, second: Tensor) -> Tensor:
    """In bits, from 0 to 1: [positions, 1] for two log-distributions [positions, vocab]."""
    middle = torch.logaddexp(first, second) - math.log(2)
    nats = 0.5 * (_kl(first, middle) + _kl(second, middle))
    return (nats / math.log(2)).clamp(0.0, 1.0)


def renyi(first: Tensor, second: Tensor, order: float) -> Tensor:
    """1/(α−1) · log Σ P^α Q^(1−α) for an order α in (0, 1), in nats, [positions, 1].

    Of distributions that share no token it is infinite, and `FURTHEST` here.
    """
    shared = torch.logsumexp(order * first + (1 - order) * second, dim=-1, keepdim=True)
    return torch.clamp(shared / (order - 1), 0.0, FURTHEST)


def shape(kind: str, logprobs: Tensor) -> Tensor:
    """How sure a log-distribution is, [positions, 1]: "entropy" in nats, "peak" or "margin"."""
    masses = logprobs.exp()
    if kind == "entropy":
        return torch.sum(torch.special.entr(masses), dim=-1, keepdim=True)
    best = masses.topk(min(2, masses.shape[-1]), dim=-1).values
    first: Tensor = best[:, :1]
    return first if kind == "peak" else first - best[:, 1:2].sum(dim=-1, keepdim=True)


def balance(first: Tensor, second: Tensor, lead: Tensor) -> Tensor:
    """The share b that minimises maxᵢ KL(P ‖ Qᵢ) − Lᵢ over P ∝ Q₁^b Q₂^(1−b), [positions, 1].

    `lead` is L₁ − L₂, by how much likelier the first makes the text so far. By duality b is where
    E_P[log Q₁ − log Q₂] + L₁ − L₂ crosses zero, which rises in b (Abad et al., 2024).
    """
    shared = (first > -math.inf) & (second > -math.inf)
    gap = torch.where(shared, first - second, 0.0).double()
    lead = lead.nan_to_num(0.0)  # where both forbid the text so far, neither is ahead
    low = torch.zeros_like(lead, dtype=torch.float64)
    high = torch.ones_like(low)

    def ahead(share: Tensor) -> Tensor:
        mixed = torch.where(shared, second + share * gap, -math.inf)
        expected: Tensor = (torch.softmax(mixed, dim=-1) * gap).sum(dim=-1, keepdim=True)
        return expected + lead

    low, high = torch.where(ahead(high) <= 0, 1.0, low), torch.where(ahead(low) >= 0, 0.0, high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        over = ahead(middle) > 0
        low, high = torch.where(over, low, middle), torch.where(over, middle, high)
    share = (low + high) / 2  # never nothing: what one forbids stays forbidden
    return share.clamp(LEAST_SHARE, 1 - LEAST_SHARE).to(first.dtype)


def _kl(first: Tensor, second: Tensor) -> Tensor:
    """Σ P (log P − log Q) over the tokens that P allows, [positions, 1]."""
    apart: Tensor = torch.where(first > -math.inf, first - second, 0.0)
    return (first.exp() * apart).sum(dim=-1, keepdim=True)
