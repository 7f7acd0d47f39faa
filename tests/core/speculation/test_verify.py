"""Verification: whatever was drafted, tokens have the target distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import logprobs
from torch import Tensor

from marith.decoding.random_numbers import Draws, uniform
from marith.decoding.sampling import drawn, require_drawn, warp
from marith.errors import FormulaError
from marith.request.sampling import Sampling
from marith.speculation import verify as verification
from marith.speculation.verify import NOT_DRAFTED, Check, Verdict, Verification, residual, verify
from marith.tensor_rows import gather, rows_of

ROWS, VOCAB = 6, 9

rows = logprobs(ROWS, VOCAB, holes=True).map(lambda raw: torch.log_softmax(raw.double(), dim=-1))


def one_hot(token: int, vocab: int = 4) -> Tensor:
    """All on one token, as log-probabilities [vocab]."""
    return torch.full((vocab,), -math.inf).index_fill(0, torch.tensor([token]), 0.0)


def evenly(count: int) -> Tensor:
    """So many numbers from [0, 1), at equal distances."""
    return (torch.arange(count, dtype=torch.float64) + 0.5) / count


def verdicts(truth: Tensor, guess: Tensor | None, token: int, chances: Tensor) -> Tensor:
    """What stands for each of the chances [count, 2], where `token` was drawn from `guess`."""
    count = len(chances)
    stood = torch.full((count,), token)
    return verify(truth.expand(count, -1), [guess] * count, stood, chances)[0]


def kept_chance(truth: Tensor, guess: Tensor) -> Tensor:
    """min(1, P / Q), [rows, vocab]; what the guess never draws needs none."""
    ratio = truth.exp() / guess.exp()
    return torch.where(guess.exp() > 0, ratio, 0.0).clamp(max=1.0)


@given(rows, rows)
def test_accepted_and_residual_mass_add_up_to_the_target(truth: Tensor, guess: Tensor) -> None:
    p, q = truth.exp(), guess.exp()
    accepted = q * kept_chance(truth, guess)
    rest = residual(p, q)
    missing = 1 - accepted.sum(dim=-1, keepdim=True)
    total = accepted + missing * rest / rest.sum(dim=-1, keepdim=True)
    torch.testing.assert_close(total, p, rtol=0, atol=1e-12)


@given(rows, rows, st.integers(0, VOCAB - 1))
def test_a_token_is_accepted_below_the_ratio_of_target_to_draft(
    truth: Tensor, guess: Tensor, token: int
) -> None:
    share = kept_chance(truth, guess)[:, token]
    stood, last = torch.full((ROWS,), token), torch.full((ROWS,), 1 - 2**-53, dtype=torch.float64)
    below = torch.stack([share * (1 - 1e-9), evenly(ROWS)], dim=1)
    above = torch.stack([torch.minimum(share * (1 + 1e-9), last), evenly(ROWS)], dim=1)
    guesses = list(guess)
    drawable, sure = guess[:, token] > -math.inf, share == 1.0
    kept = verify(truth, guesses, stood, below)[0]
    refused = verify(truth, guesses, stood, above)[0]
    afresh = drawn(residual(truth.exp(), guess.exp()), above[:, 1])
    assert (kept == token)[drawable & (share > 0)].all()
    assert (refused == afresh)[drawable & ~sure].all()
    assert (refused == token)[drawable & sure].all()


@given(rows, rows)
def test_the_overlap_is_one_less_the_total_variation(truth: Tensor, guess: Tensor) -> None:
    overlaps = verify(truth, list(guess), torch.zeros(ROWS).long(), torch.zeros(ROWS, 2))[1]
    variation = (truth.exp() - guess.exp()).abs().sum(dim=-1) / 2
    torch.testing.assert_close(overlaps, 1 - variation, rtol=0, atol=1e-12)
    expected = (guess.exp() * kept_chance(truth, guess)).sum(dim=-1)
    torch.testing.assert_close(overlaps, expected, rtol=0, atol=1e-12)


@given(rows)
def test_with_equal_distributions_every_draft_is_accepted(truth: Tensor) -> None:
    for token in range(VOCAB):
        chances = torch.tensor([[1 - 2**-53, 0.5]] * ROWS, dtype=torch.float64)
        tokens, overlaps = verify(truth, list(truth), torch.full((ROWS,), token), chances)
        assert (tokens == token)[truth[:, token] > -math.inf].all()
        torch.testing.assert_close(overlaps, torch.ones(ROWS).double(), rtol=0, atol=1e-12)
    assert torch.equal(residual(truth.exp(), truth.exp()), truth.exp())


def test_with_disjoint_distributions_no_draft_is_accepted() -> None:
    truth = torch.tensor([0.0, 0.0, 0.3, 0.7], dtype=torch.float64)
    guess = torch.tensor([0.6, 0.4, 0.0, 0.0], dtype=torch.float64)
    assert torch.equal(residual(truth[None], guess[None])[0], truth)
    chances = torch.stack([torch.zeros(1000, dtype=torch.float64), evenly(1000)], dim=1)
    tokens = verdicts(truth.log(), guess.log(), 0, chances)
    assert tokens.bincount(minlength=4).tolist() == [0, 0, 300, 700]
    overlaps = verify(truth.log()[None], [guess.log()], torch.tensor([0]), chances[:1])[1]
    assert overlaps.tolist() == [0.0]


def test_one_hot_distributions_are_accepted_or_rejected_entirely() -> None:
    chances = torch.tensor([[0.999, 0.999]])
    for guessed in range(4):
        for true in range(4):
            truth, stood = one_hot(true)[None], torch.tensor([guessed])
            tokens, overlaps = verify(truth, [one_hot(guessed)], stood, chances)
            assert tokens.tolist() == [true]
            assert overlaps.tolist() == [float(guessed == true)]


def test_a_token_that_the_target_forbids_is_never_accepted() -> None:
    truth = torch.tensor([0.5, 0.5, 0.0]).log()
    guess = torch.tensor([0.0, 0.5, 0.5]).log()
    tokens = verdicts(truth, guess, 2, torch.tensor([[0.0, 0.0], [0.0, 0.99]]))
    assert tokens.tolist() == [0, 0]


@given(rows)
def test_a_proposed_token_is_accepted_with_its_target_probability(truth: Tensor) -> None:
    count = 5_000
    chances = torch.stack([torch.zeros(count, dtype=torch.float64), evenly(count)], dim=1)
    for token in (0, VOCAB - 1):
        tokens = verdicts(truth[0], None, token, chances)
        shares = tokens.bincount(minlength=VOCAB).double() / count
        torch.testing.assert_close(shares, truth[0].exp(), rtol=0, atol=1.01 / count)
        overlap = verify(truth[:1], [None], torch.tensor([token]), chances[:1])[1]
        assert float(overlap[0]) == float(truth[0, token].exp())


def verify_all(checks: list[Check]) -> list[Verdict]:
    """Verify all checks together, and return their verdicts."""
    verification = Verification(checks)
    return verification.verdicts(verification.results.tolist())


@pytest.mark.parametrize("drafted", [False, True])
def test_nan_is_refused(drafted: bool) -> None:
    raw = torch.log_softmax(torch.zeros(2, 3), dim=-1)
    raw[1, 2] = math.nan
    draft = (torch.log_softmax(torch.zeros(1, 3), dim=-1), 0) if drafted else None
    tokens, drafts = [0 if drafted else NOT_DRAFTED] * 2, [draft] * 2
    checks = [Check(rows_of(raw), Sampling(), (0, 1), tokens, drafts, Draws(1, by_place=False))]
    with pytest.raises(FormulaError, match=r"not a number \(NaN\): .*; write smaller factors"):
        require_drawn(Verification(checks).results[0].tolist())
    checks[0].rows = rows_of(raw[[0, 0]])
    assert all(0 <= token < 3 for token in verify_all(checks)[0].tokens)


def check(source: torch.Generator, sampling: Sampling, count: int) -> Check:
    """Positions of every kind: drawn from a guess, proposed outright, and not yet drawn."""
    raw = torch.log_softmax(3 * torch.randn(2 * count, VOCAB, generator=source), dim=-1)
    text = torch.randint(VOCAB, (count + 2,), generator=source).tolist()
    guesses = [
        None if at % 3 else (warp(raw[count + at][None], sampling), 0) for at in range(count)
    ]
    tokens = [NOT_DRAFTED if at % 3 == 1 else text[at + 2] for at in range(count)]
    draws = Draws(count, by_place=sampling.top_k is None, use=1)
    return Check(rows_of(raw[:count]), sampling, range(2, count + 2), tokens, guesses, draws)


def alike(one: Verdict, other: Verdict) -> None:
    assert one.tokens == other.tokens
    assert one.overlaps == pytest.approx(other.overlaps, abs=1e-6)
    torch.testing.assert_close(gather(one.targets), gather(other.targets))


@given(st.integers(0, 2**31))
def test_many_checks_at_once_equal_one_check_at_a_time(seed: int) -> None:
    source = torch.Generator().manual_seed(seed)
    kinds = [Sampling(0.7, top_p=0.9, seed=1), Sampling(0.0), Sampling(1.5, min_p=0.1)]
    kinds += [replace(kinds[0], seed=2), Sampling(top_k=3)]
    checks = [check(source, kind, count) for kind in kinds for count in (1, 4)]
    for one, verdict in zip(checks, verify_all(checks), strict=True):
        alike(verify_all([one])[0], verdict)
        for at, place in enumerate(one.places):
            row = slice(at, at + 1)
            alone = replace(
                one, rows=one.rows[row], places=[place], tokens=one.tokens[row],
                drafts=one.drafts[row],
            )  # fmt: skip
            [again] = verify_all([alone])
            alike(again, Verdict(verdict.tokens[row], verdict.overlaps[row], verdict.targets[row]))


def test_the_numbers_of_all_checks_are_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    source, calls = torch.Generator().manual_seed(1), []

    def counted(*columns: Sequence[int]) -> np.ndarray:
        calls.append(len(columns[0]))
        return uniform(*columns)

    monkeypatch.setattr(verification, "uniform", counted)
    verify_all([check(source, Sampling(top_k=3), count) for count in (1, 4, 2)])
    assert calls == [7]


def test_at_temperature_zero_only_the_likeliest_token_is_accepted() -> None:
    source = torch.Generator().manual_seed(3)
    one = check(source, Sampling(0.0), 8)
    [verdict] = verify_all([one])
    assert verdict.tokens == gather(one.rows).argmax(dim=-1).tolist()
    assert (gather(verdict.targets).exp().sum(dim=-1) == 1).all()
