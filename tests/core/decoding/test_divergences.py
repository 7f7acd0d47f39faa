"""Divergences, certainty and balance of distributions, compared with scipy and brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy
from support.strategies import logprobs
from torch import Tensor

from marith.decoding import divergences

whole, holed = logprobs(3, 8), logprobs(3, 8, holes=True)
orders = st.floats(0.05, 0.95)
LEFT, RIGHT = torch.tensor([[0.5, 0.5, 0.0, 0.0]]).log(), torch.tensor([[0.0, 0.0, 0.1, 0.9]]).log()


def masses(rows: Tensor) -> np.ndarray:
    """Probabilities in double precision, each row of sum one."""
    found = rows.double().exp()
    even: np.ndarray = (found / found.sum(dim=-1, keepdim=True)).numpy()
    return even


def plain(column: Tensor) -> list[float]:
    assert column.ndim == 2
    assert column.shape[1] == 1
    return column[:, 0].tolist()


@given(holed, holed)
def test_the_jensen_shannon_divergence_is_scipys_in_bits(p: Tensor, q: Tensor) -> None:
    want = [jensenshannon(x, y, base=2) ** 2 for x, y in zip(masses(p), masses(q), strict=True)]
    assert plain(divergences.jensen_shannon(p, q)) == pytest.approx(want, abs=1e-5)


@given(whole, whole, orders)
def test_the_renyi_divergence_has_its_closed_form(p: Tensor, q: Tensor, order: float) -> None:
    x, y = masses(p), masses(q)
    want = np.log((x**order * y ** (1 - order)).sum(axis=-1)) / (order - 1)
    got = divergences.renyi(p, q, order)
    assert plain(got) == pytest.approx(list(want), abs=2e-5, rel=1e-4)
    torch.testing.assert_close(
        divergences.renyi(p, q, 0.5), divergences.renyi(q, p, 0.5), atol=1e-5, rtol=1e-4
    )
    assert divergences.renyi(p, p, order).max() < 1e-4
    assert bool((got >= 0).all())
    kl = [entropy(a, b) for a, b in zip(x, y, strict=True)]
    assert all(one <= other + 1e-4 for one, other in zip(plain(got), kl, strict=True))


def test_distributions_without_a_common_token_have_the_largest_finite_divergence() -> None:
    assert plain(divergences.jensen_shannon(LEFT, RIGHT)) == pytest.approx([1.0])
    assert plain(divergences.renyi(LEFT, RIGHT, 0.5)) == [divergences.FURTHEST]


@given(holed)
def test_entropy_max_prob_and_margin_measure_how_sure_a_distribution_is(p: Tensor) -> None:
    rows = masses(p)
    want = [entropy(row) for row in rows]
    assert plain(divergences.concentration("entropy", p)) == pytest.approx(want, abs=1e-5)
    best = [sorted(row, reverse=True) for row in rows]
    assert plain(divergences.concentration("max_prob", p)) == pytest.approx([b[0] for b in best])
    gaps = [b[0] - b[1] for b in best]
    assert plain(divergences.concentration("margin", p)) == pytest.approx(gaps, abs=1e-6)


leads = st.floats(-6, 6)


def objective(p: Tensor, q: Tensor, lead: float, mixed: Tensor) -> Tensor:
    """maxᵢ KL(P ‖ Qᵢ) − Lᵢ of many P [count, vocab] in float64; only L₁ − L₂ matters."""
    log = mixed.log()
    shared = (mixed > 0) & (p > -math.inf) & (q > -math.inf)
    sides = [
        torch.where(shared, mixed * (log - one.double()), 0.0).sum(dim=-1) - own
        for one, own in ((p, lead), (q, 0.0))
    ]
    beyond = ((mixed > 1e-12) & ~((p > -math.inf) & (q > -math.inf))).any(dim=-1)
    return torch.maximum(*sides).masked_fill(beyond, math.inf)


@given(logprobs(1, 6), logprobs(1, 6), leads, st.integers(0, 2**31))
def test_the_balanced_share_has_the_least_of_the_larger_divergence(
    p: Tensor, q: Tensor, lead: float, seed: int
) -> None:
    """Against every other share, and against any distributions near and far."""
    share = divergences.balance(p, q, torch.tensor([[lead]]))
    assert share.shape == (1, 1)
    assert share.dtype == torch.float32
    shares = torch.cat([share.double(), torch.linspace(0, 1, 101, dtype=torch.float64)[:, None]])
    fused = torch.softmax(shares * p.double() + (1 - shares) * q.double(), dim=-1)
    source = torch.Generator().manual_seed(seed)
    far = torch.softmax(torch.randn(60, 6, generator=source, dtype=torch.float64) * 3, dim=-1)
    near = 0.98 * fused[:1] + 0.02 * far
    found = objective(p, q, lead, torch.cat([fused, far, near]))
    assert float(found[0]) <= float(found.min()) + 1e-5


@given(holed, holed, leads)
def test_the_balance_is_symmetric_and_favours_the_less_likely_member(
    p: Tensor, q: Tensor, lead: float
) -> None:
    ahead = torch.full((3, 1), lead)
    share = divergences.balance(p, q, ahead)
    assert bool(((share >= 0) & (share <= 1)).all())
    ours, theirs = blended(p, q, share), blended(q, p, divergences.balance(q, p, -ahead))
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)
    assert bool((divergences.balance(p, q, ahead + 1) <= share + 1e-6).all())


def blended(p: Tensor, q: Tensor, share: Tensor) -> Tensor:
    """The probabilities of the blend; the share itself is anything where the two are equal."""
    both = (p > -math.inf) & (q > -math.inf)
    mixed = torch.where(both, share * p, 0.0) + torch.where(both, (1 - share) * q, 0.0)
    return torch.softmax(mixed.masked_fill(~both, -math.inf), dim=-1)


@pytest.mark.parametrize(("lead", "share"), [(60.0, 0.0), (-60.0, 1.0)])
def test_a_member_that_is_far_ahead_gets_almost_no_share(lead: float, share: float) -> None:
    p, q = torch.tensor([[0.7, 0.2, 0.1]]).log(), torch.tensor([[0.2, 0.2, 0.6]]).log()
    told = float(divergences.balance(p, q, torch.tensor([[lead]])))
    assert told == pytest.approx(share, abs=1e-6)
    assert 0 < told < 1, "what one of them forbids stays forbidden"
