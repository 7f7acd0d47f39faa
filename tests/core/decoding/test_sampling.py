"""Warping follows its definitions, and sampling follows the distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from support.strategies import logprobs
from torch import Tensor
from transformers import RepetitionPenaltyLogitsProcessor

from marith.decoding.random_numbers import DRAW, uniform
from marith.decoding.row_constraints import penalised
from marith.decoding.sampling import drawn, warp
from marith.errors import RequestError
from marith.request.sampling import Sampling

rows = logprobs(2, 7, holes=True)
ADDED = ("presence_penalty", "frequency_penalty", "logit_bias")


def one_by_one(row: list[float], sampling: Sampling, seen: set[int]) -> list[float]:
    """The warped probabilities of one row, written out token by token."""

    def normalised(values: list[float]) -> list[float]:
        return [value / math.fsum(values) for value in values]

    logs = [lp * sampling.repetition_penalty if i in seen else lp for i, lp in enumerate(row)]
    top = max(logs)
    p = normalised([math.exp((lp - top) / sampling.temperature) for lp in logs])
    order = sorted(range(len(p)), key=lambda i: -p[i])
    if sampling.top_k is not None:
        p = normalised([v if i in order[: sampling.top_k] else 0.0 for i, v in enumerate(p)])
    mass, kept = 0.0, set()
    for i in order:
        if mass < sampling.top_p:
            kept.add(i)
        mass += p[i]
    if sampling.top_p < 1:
        p = normalised([v if i in kept else 0.0 for i, v in enumerate(p)])
    return normalised([v if v >= sampling.min_p * max(p) else 0.0 for v in p])


@given(
    rows, st.floats(0.2, 4.0), st.none() | st.integers(1, 9), st.sampled_from([0.37, 0.81, 1.0]),
    st.sampled_from([0.0, 0.113]), st.sampled_from([0.7, 1.0, 1.8]), st.sets(st.integers(0, 6)),
    st.sets(st.integers(0, 6)),
)  # fmt: skip
def test_warping_follows_its_definitions(
    given_: Tensor, temperature: float, k: int | None, p: float, min_p: float,
    penalty: float, seen: set[int], prompt: set[int],
) -> None:  # fmt: skip
    sampling = Sampling(temperature, k, p, None, min_p, penalty)
    warped = warp(penalised(given_, [*seen, *seen], sampling, prompt), sampling).exp()
    expected = [one_by_one(row, sampling, seen | prompt) for row in given_.double().tolist()]
    torch.testing.assert_close(warped, torch.tensor(expected), atol=1e-5, rtol=1e-4)


@given(rows)
def test_the_default_changes_nothing(given_: Tensor) -> None:
    assert torch.equal(warp(given_, Sampling()), given_)


@given(rows)
def test_warping_leaves_its_input_alone(given_: Tensor) -> None:
    before = given_.clone()
    sampling = Sampling(0.5, 3, 0.9, None, 0.1, 1.5)
    warp(penalised(given_, [0, 1], sampling, ()), sampling)
    warp(given_, sampling)
    assert torch.equal(given_, before)


@given(rows)
def test_temperature_zero_is_one_hot_on_the_likeliest(given_: Tensor) -> None:
    warped = warp(given_, Sampling(temperature=0.0)).exp()
    assert warped.argmax(dim=-1).tolist() == given_.argmax(dim=-1).tolist()
    assert torch.equal(warped.sort(dim=-1).values[:, -1], torch.ones(2))
    assert torch.equal(warped.sum(dim=-1), torch.ones(2))


@given(rows, st.floats(0.1, 10))
def test_temperature_divides_log_ratios(given_: Tensor, temperature: float) -> None:
    given_ = given_.nan_to_num(neginf=-9.0).log_softmax(dim=-1)
    warped = warp(given_, Sampling(temperature=temperature))
    torch.testing.assert_close(
        (warped - warped[:, :1]) * temperature, given_ - given_[:, :1], atol=1e-4, rtol=1e-4
    )


@pytest.mark.parametrize("temperature", [1e-4, 1e-20, 1e-40, 1e-300])
def test_a_tiny_temperature_takes_the_likeliest(temperature: float) -> None:
    row = torch.tensor([[0.2, 0.5, 0.3]]).log()
    warped = warp(row, Sampling(temperature=temperature))
    assert warped.exp().tolist() == [[0.0, 1.0, 0.0]]


@given(rows, st.floats(0.5, 3.0), st.lists(st.integers(0, 6)), st.lists(st.integers(0, 6)))
def test_the_repetition_penalty_is_the_one_of_transformers(
    given_: Tensor, penalty: float, prompt: list[int], text: list[int]
) -> None:
    theirs = RepetitionPenaltyLogitsProcessor(penalty)
    read = torch.tensor([[*prompt, *text]] * len(given_), dtype=torch.long)
    expected = torch.softmax(theirs(read, given_.clone()), dim=-1)
    ours = penalised(given_, text, Sampling(repetition_penalty=penalty), prompt)
    torch.testing.assert_close(ours.exp(), expected, atol=1e-6, rtol=1e-5)


def test_penalties_are_subtracted_and_biases_are_added() -> None:
    row = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.0, 0.9]]).log()
    sampling = Sampling(presence_penalty=0.5, frequency_penalty=0.25, logit_bias={"2": 1, 1: -2})
    added = torch.tensor([-0.5 - 2 * 0.25, -2.0, -0.5 - 0.25 + 1.0])
    expected = torch.softmax(row + added, dim=-1)
    torch.testing.assert_close(penalised(row, [0, 2, 0], sampling, [1]).exp(), expected)
    only_biased = torch.softmax(row + torch.tensor([0.0, -2.0, 1.0]), dim=-1)
    torch.testing.assert_close(penalised(row, [], sampling, [1]).exp(), only_biased)
    assert sampling.penalises
    assert not sampling.warping.penalises
    assert hash(sampling) == hash(Sampling(**{n: getattr(sampling, n) for n in ADDED}))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_draws_follow_the_distribution_and_never_the_impossible(seed: int) -> None:
    row = torch.tensor([0.0, 0.4, 0.0, 0.3, 0.2, 0.0999, 0.0001, 0.0])
    numbers = uniform([seed] * 20_000, range(20_000), [0] * 20_000)[:, DRAW]
    counts = drawn(row.expand(20_000, -1), torch.from_numpy(numbers)).bincount(minlength=8)
    possible = row > 0
    assert int(counts[~possible].sum()) == 0
    expected = row[possible].double()
    result = chisquare(counts[possible].numpy(), (expected / expected.sum() * 20_000).numpy())
    assert result.pvalue > 1e-3


BAD: list[tuple[str, Any]] = [
    *(("temperature", v) for v in (-0.1, math.nan, math.inf, "1", None, True, 10**400)),
    *(("temperature", v) for v in (np.float32(math.inf), np.bool_(1), torch.ones(2))),
    *(("top_k", v) for v in (0, -1, 1.0, "1", True, 10**400, np.float64(2), torch.tensor(True))),
    *(("top_p", v) for v in (0.0, 1.1, -1, math.nan, "1", None, False)),
    *(("min_p", v) for v in (-0.1, 1.1, math.nan, "0", None)),
    *(("repetition_penalty", v) for v in (0.0, -1, math.inf, math.nan, "1", None)),
    *(("presence_penalty", v) for v in (math.inf, math.nan, "1", None)),
    *(("frequency_penalty", v) for v in (math.inf, "0", True)),
    *(("seed", v) for v in (1.0, "7", True, 2**63, -(2**63) - 1, 10**400)),
]


@pytest.mark.parametrize(
    "value",
    [3, "x", {-1: 1}, {1: math.nan}, {"a": 1}, {1.5: 1}, None, dict.fromkeys(range(1025), 1.0)],
    ids=lambda value: str(value)[:9],
)
def test_a_bad_bias_is_refused(value: Any) -> None:
    with pytest.raises(RequestError, match="logit_bias"):
        Sampling(logit_bias=value)


@pytest.mark.parametrize(("name", "value"), BAD, ids=[f"{n}={str(v)[:9]}" for n, v in BAD])
def test_a_bad_value_is_refused_by_name(name: str, value: Any) -> None:
    if isinstance(value, int) and value > 2**64 and name == "top_k":
        assert Sampling(top_k=value).top_k == value  # more than all tokens is all tokens
        return
    with pytest.raises(RequestError, match=name) as caught:
        Sampling(**{name: value})
    assert repr(value) in str(caught.value)
