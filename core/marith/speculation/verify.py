"""Verification: accept or reject drafted tokens, and replace a rejected token.

A token x that was drawn from a draft Q is kept with probability min(1, P(x) / Q(x)), where P is the
target. Otherwise it is replaced by a token drawn from max(P − Q, 0), normalised. The result is
distributed as P, whatever Q is (paper, algorithm 1, after Leviathan et al., 2023). When each stage
verifies the tokens of the stage before it, the final tokens are distributed as the whole formula
(section 4, lemma 1).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from marith.decoding import cuts
from marith.decoding.random_numbers import DRAW, KEEP, Draws, uniform
from marith.decoding.sampling import DRAWN_FROM_NAN, drawn, warp
from marith.formula.tree.nodes import PLAUSIBLE
from marith.request.sampling import Sampling
from marith.tensor_rows import Row, gather, on_device, rows_of, vector

# This stands in `tokens` for a position at which no token was drafted.
NOT_DRAFTED = -1


@dataclass(slots=True)
class Check:
    """Positions of one text to verify.

    `rows` has one row [vocab] for each position, composed and constrained, but not yet warped:
    before temperature, top-k, top-p and min-p (`warp`). `tokens` are the tokens at `places`, or
    `NOT_DRAFTED`. `drafts` are the warped distributions [vocab] from which the tokens were drawn;
    None for `NOT_DRAFTED` and for a token that was proposed without a distribution. `draws` selects
    the random numbers. `compared` has the rows of some terms for each position, or is empty. The
    verdict says whether the token is plausible to one of these terms.
    """

    rows: Sequence[Row]
    sampling: Sampling
    places: Sequence[int]
    tokens: Sequence[int]
    drafts: Sequence[Row | None]
    draws: Draws
    compared: Sequence[Sequence[Row]] = ()


@dataclass(slots=True)
class Verdict:
    """The result of a verification.

    `tokens` has a token for each position, which counts only if all tokens before it are accepted.
    `overlaps` are the probabilities that a drafted token is accepted. They are Σ min(P, Q), which
    is 1 − the total variation of P and Q (paper, lemma 3), or P(x) for a token x that was proposed
    without a distribution. `targets` are the warped target distributions [vocab] at the positions.
    `plausible` has True for a token that is at least `PLAUSIBLE` times as likely as the likeliest
    token, to one of the compared terms.
    """

    tokens: list[int]
    overlaps: list[float]
    targets: Sequence[Row]
    plausible: Sequence[bool] = ()


class Verification:
    """The verification of all positions of all checks, in one call of `verify`.

    `results` are three numbers for each position, [3, positions] in float64. The first row has the
    tokens. `verdicts` makes the verdicts from them once they are on the host, so making a
    `Verification` does not wait for the device.
    """

    def __init__(self, checks: Sequence[Check]) -> None:
        self._checks = checks
        samplings = [check.sampling for check in checks for _ in check.rows]
        self._targets = warp_rows([row for check in checks for row in check.rows], samplings)
        drafts = [d and vector(d) for check in checks for d in check.drafts]
        device = self._targets[0][0].device
        proposed = on_device([token for check in checks for token in check.tokens], device)
        numbers = on_device(_random_numbers(checks), device)
        tokens, overlaps = verify(gather(self._targets), drafts, proposed, numbers)
        found = count_plausible(*_compared(checks), tokens)
        # All numbers are in one tensor, so that a step waits only once for the device. float64
        # holds every token exactly.
        self.results = torch.stack((tokens.to(overlaps), overlaps, found.to(overlaps)))

    def verdicts(self, results: Sequence[list[float]]) -> list[Verdict]:
        """Return the verdict of each check. `results` are the three lists of numbers."""
        tokens, overlaps, plausible = results
        verdicts, first = [], 0
        for check in self._checks:
            end = first + len(check.tokens)
            chosen = [int(token) for token in tokens[first:end]]
            likely = [plausible[i] > 0 for i in range(first, end)]
            targets = self._targets[first:end]
            verdicts.append(Verdict(chosen, overlaps[first:end], targets, likely))
            first = end
        return verdicts


def verify(
    targets: Tensor, drafts: Sequence[Tensor | None], proposed: Tensor, numbers: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the verified tokens [rows] and the overlaps [rows], from normalised log-probabilities.

    All tensors are on one device. `targets` is [rows, vocab]. `proposed` has the tokens [rows] to
    verify, or `NOT_DRAFTED`.
    `numbers` has two numbers from [0, 1) for each row. The first decides whether the token is kept;
    if it is NaN, the token is kept only if it would be drawn anyway. The second draws a token. No
    epsilon is added anywhere: if P = Q, every token is kept, and if P and Q share no token, every
    token is replaced. −inf is probability 0.
    """
    # float32 suffices for probabilities: only their sums need float64.
    probabilities = targets.exp()
    # `NOT_DRAFTED` is not an index, so token 0 stands in for it. Its overlap is not used.
    stands = proposed.clamp(min=0)
    overlaps = probabilities.gather(1, stands[:, None])[:, 0].double()
    drafted = [row for row, draft in enumerate(drafts) if draft is not None]
    if not drafted:
        return drawn(probabilities, numbers[:, DRAW]), overlaps
    target = probabilities.double()
    draft = torch.stack([d for d in drafts if d is not None]).exp().double()
    draft_targets = target[drafted]
    draft_tokens = stands[drafted, None]
    # A drafted token is kept if its first random number u is below P / Q. Comparing u · Q with P
    # avoids the division. A drawn token has Q > 0, and u < 1 keeps every token if P = Q.
    to_keep = numbers[drafted, KEEP]
    kept = to_keep * draft.gather(1, draft_tokens)[:, 0] < overlaps[drafted]
    masses = target.clone()
    by_place = to_keep[:, None].isnan()
    # With `by_place`, a drafted token is kept only if the target draws it, so the token is drawn
    # from the target itself.
    masses[drafted] = torch.where(by_place, draft_targets, residual(draft_targets, draft))
    tokens = drawn(masses, numbers[:, DRAW])
    replaced = tokens[drafted]
    # A target that is NaN must be reported, even if the drafted token would be kept.
    tokens[drafted] = torch.where(kept & (replaced != DRAWN_FROM_NAN), stands[drafted], replaced)
    overlaps[drafted] = overlap(draft_targets, draft)
    return tokens, overlaps


def overlap(target: Tensor, draft: Tensor) -> Tensor:
    """Return Σ min(P, Q) = 1 − ½Σ|P − Q| of each row: the chance that a token of Q is kept.

    Both arguments are probabilities [rows, vocab] (paper, lemma 3).
    """
    return torch.minimum(target, draft).sum(dim=-1)


def residual(target: Tensor, draft: Tensor) -> Tensor:
    """Return the masses from which a replacement is drawn: max(P − Q, 0), or P if P = Q.

    Both arguments are probabilities [rows, vocab].
    """
    lacking = (target - draft).clamp(min=0.0)
    equal = lacking.sum(dim=-1, keepdim=True) == 0.0
    return torch.where(equal, target, lacking)


def _compared(checks: Sequence[Check]) -> tuple[list[Row], list[int]]:
    """Return the rows that are compared with tokens, and the position of each."""
    rows: list[Row] = []
    positions: list[int] = []
    first = 0
    for check in checks:
        for position, compared in enumerate(check.compared, first):
            rows += compared
            positions += [position] * len(compared)
        first += len(check.tokens)
    return rows, positions


def count_plausible(rows: Sequence[Row], positions: Sequence[int], tokens: Tensor) -> Tensor:
    """Return how many of the rows find the token at their position plausible.

    `tokens` and the result are [positions]. A plausible token is at least `PLAUSIBLE` times as
    likely as the likeliest token of the row.
    """
    found = torch.zeros_like(tokens)
    if not rows:
        return found
    at = on_device(positions, tokens.device)
    # A token that was drawn from NaN is no index, so token 0 stands in for it.
    plausible = cuts.keeps(gather(rows), tokens[at].clamp(min=0), PLAUSIBLE)
    return found.index_add_(0, at, plausible.to(found))


def _random_numbers(checks: Sequence[Check]) -> NDArray[np.float64]:
    """Return two numbers for each position, [rows, 2]; the first is NaN if `Draws.by_place`."""
    rows = [(check.draws, place) for check in checks for place in check.places]
    seeds, uses = [draws.seed for draws, _ in rows], [draws.use for draws, _ in rows]
    numbers = uniform(seeds, [place for _, place in rows], uses)
    numbers[[draws.by_place for draws, _ in rows], KEEP] = math.nan
    return numbers


def warp_rows(rows: Sequence[Row], samplings: Sequence[Sampling]) -> list[Row]:
    """Return the target of each position. Positions with the same `Sampling` are warped together.

    A sampling that is equal to another, but is another object, costs another call.
    """
    by_sampling: dict[int, list[int]] = defaultdict(list)
    for i, sampling in enumerate(samplings):
        # Hashing a sampling takes longer than the rest of the work for a position.
        by_sampling[id(sampling)].append(i)
    if len(by_sampling) == 1:
        return rows_of(warp(gather(rows), samplings[0]))
    targets: dict[int, Row] = {}
    for members in by_sampling.values():
        warped = warp(gather([rows[i] for i in members]), samplings[members[0]])
        targets.update(zip(members, rows_of(warped), strict=True))
    return [targets[i] for i in range(len(rows))]
