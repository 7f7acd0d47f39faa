"""Cuts keep the tokens of their definitions, compared with naive loops."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import logprobs
from torch import Tensor

from marith.decoding import cuts

rows = logprobs(3, 8, holes=True)
fractions = st.floats(0.01, 0.99)


def naive_nucleus(row: list[float], p: float) -> set[int]:
    order = sorted(range(len(row)), key=lambda i: -row[i])
    kept, mass = set(), 0.0
    for i in order:
        if mass >= p or row[i] == -math.inf:
            break
        kept.add(i)
        mass += math.exp(row[i])
    return kept


def kept_of(mask: Tensor) -> list[set[int]]:
    return [set(row.nonzero().flatten().tolist()) for row in mask]


@given(rows, st.integers(1, 12))
def test_top_k_keeps_the_k_likeliest(given_: Tensor, k: int) -> None:
    for kept, row in zip(kept_of(cuts.top_k(given_, k)), given_.tolist(), strict=True):
        possible = [i for i in range(8) if row[i] > -math.inf]
        assert kept == set(sorted(possible, key=lambda i: -row[i])[:k])


@given(rows, fractions)
def test_top_p_keeps_the_smallest_nucleus(given_: Tensor, p: float) -> None:
    for kept, row in zip(kept_of(cuts.top_p(given_, p)), given_.tolist(), strict=True):
        if kept != naive_nucleus(row, p):  # only rounding at the very edge may differ
            edge = min(math.fsum(math.exp(row[i]) for i in naive_nucleus(row, q)) - p
                       for q in (p - 1e-6, p) if q > 0)  # fmt: skip
            assert abs(edge) < 1e-5


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=40, max_size=40), min_size=1, max_size=3),
    fractions,
)
def test_top_p_keeps_what_a_stable_sort_of_all_tokens_would(
    steps: list[list[int]], p: float
) -> None:
    logprobs_ = torch.log_softmax(torch.tensor(steps).float(), dim=-1)  # many are equally likely
    ordered, order = logprobs_.exp().double().sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(dim=-1) - ordered
    expected = torch.zeros_like(logprobs_, dtype=torch.bool).scatter_(-1, order, before < p)
    assert torch.equal(cuts.top_p(logprobs_, p), expected)


@given(rows, fractions)
def test_min_p_keeps_tokens_near_the_likeliest(given_: Tensor, alpha: float) -> None:
    for kept, row in zip(kept_of(cuts.min_p(given_, alpha)), given_.tolist(), strict=True):
        bar = max(row) + math.log(alpha)
        assert {i for i in range(8) if row[i] > bar + 1e-5} <= kept
        assert kept <= {i for i in range(8) if row[i] > bar - 1e-5}


@given(st.lists(rows, min_size=2, max_size=3), st.integers(1, 9))
def test_common_keeps_the_smallest_shared_top_set_of_all_members(
    members: list[Tensor], count: int
) -> None:
    """SafeDecoding (Xu et al., 2024), equation 2: the sets are grown until they share enough."""
    for place, kept in enumerate(kept_of(cuts.common(members, count))):
        mine = [member[place].tolist() for member in members]
        ranked = [sorted(range(8), key=row.__getitem__, reverse=True) for row in mine]
        shared: set[int] = set()
        for k in range(1, 9):
            shared = set.intersection(*({*order[:k]} for order in ranked))
            if len(shared) >= count:
                break
        assert kept == {i for i in shared if all(row[i] > -math.inf for row in mine)}


@given(rows, st.integers(1, 8), fractions)
def test_the_likeliest_token_is_always_kept_and_an_impossible_one_never(
    given_: Tensor, k: int, p: float
) -> None:
    best = given_.argmax(dim=-1, keepdim=True)
    for kept in (cuts.top_k(given_, k), cuts.top_p(given_, p), cuts.min_p(given_, p)):
        assert bool(kept.gather(-1, best).all())
        assert not bool((kept & given_.isneginf()).any())


@given(rows, st.integers(1, 8))
def test_kept_tokens_are_renormalised(given_: Tensor, k: int) -> None:
    kept = cuts.top_k(given_, k)
    result = cuts.keep(given_, kept)
    mass = given_.exp().masked_fill(~kept, 0.0)
    torch.testing.assert_close(result.exp(), mass / mass.sum(dim=-1, keepdim=True))
    assert bool(result.isneginf().eq(~kept).all())


def test_the_limits_of_top_p_and_min_p_are_inclusive() -> None:
    row = torch.tensor([[0.5, 0.25, 0.25]]).log()
    assert cuts.top_p(row, 1.0).tolist() == [[True, True, True]]
    assert cuts.top_p(row, 0.5).tolist() == [[True, False, False]]
    assert cuts.top_p(row, 0.51).tolist() == [[True, True, False]]
    assert cuts.min_p(row, 1.0).tolist() == [[True, False, False]]
    assert cuts.min_p(row, 0.5).tolist() == [[True, True, True]]


@pytest.mark.parametrize("seed", range(3))
def test_a_nucleus_of_one_keeps_every_possible_token_of_a_large_vocabulary(seed: int) -> None:
    raw = torch.randn(2, 50_000, generator=torch.Generator().manual_seed(seed)) * 3
    assert bool(cuts.top_p(torch.log_softmax(raw, dim=-1), 1.0).all())
