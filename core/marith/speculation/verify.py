"""Verification: which drafted tokens stand, and what follows them.

A token x that was drawn from a draft Q is kept with probability min(1, P(x) / Q(x)), else drawn
anew from what the target P has and Q lacks: the result is distributed as P, whatever Q was (paper,
algorithm 1, after Leviathan et al., 2023). Applied from one distribution to the next, it leads
from the first stage's to the whole formula's (paper, section 4, lemma 1).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from marith.decoding.random_numbers import DRAW, KEEP, Draws, uniform
from marith.decoding.sampling import drawn, warp
from marith.request.sampling import Sampling

NOTHING = -1  # where a token is yet to be drawn


@dataclass(frozen=True, slots=True)
class Check:
    """Positions of one text to verify.

    `logprobs` [positions, vocab] are composed and constrained, and not yet warped. `tokens` stand
    at `places`, `NOTHING` where nothing does. `drafts` are the warped distributions [vocab] that
    they were drawn from, None for a token that was proposed outright and for none. `draws` says
    which random numbers decide.
    """

    logprobs: Tensor
    sampling: Sampling
    places: Sequence[int]
    tokens: Sequence[int]
    drafts: Sequence[Tensor | None]
    draws: Draws


@dataclass(frozen=True, slots=True)
class Verdict:
    """The token at each position after verification, if those before it stand.

    `overlaps` are the probabilities that the drafted token would stand: Σ min(P, Q), 1 − the total
    variation of the two (paper, lemma 3), and P(x) for a token x that was proposed outright.
    `targets` [positions, vocab] are the warped distributions of the tokens.
    """

    tokens: list[int]
    overlaps: list[float]
    targets: Tensor


def verify_all(checks: Sequence[Check]) -> list[Verdict]:
    """All positions of all checks, in as many tensor operations for many as for one."""
    if not checks:
        return []
    targets = _warped(checks)
    drafts = [draft for check in checks for draft in check.drafts]
    stood = torch.tensor([token for check in checks for token in check.tokens])
    rows = torch.cat(targets) if len(targets) > 1 else targets[0]
    verified, shared = verify(rows, drafts, stood, _random_numbers(checks))
    tokens, overlaps = verified.tolist(), shared.tolist()
    verdicts, first = [], 0
    for check, target in zip(checks, targets, strict=True):
        own = slice(first, first + len(check.tokens))
        verdicts.append(Verdict(tokens[own], overlaps[own], target))
        first = own.stop
    return verdicts


def verify(
    targets: Tensor, drafts: Sequence[Tensor | None], stood: Tensor, numbers: Tensor
) -> tuple[Tensor, Tensor]:
    """The tokens [rows] that follow, and the overlaps [rows], from normalised log-probabilities.

    `targets` is [rows, vocab], `stood` are the tokens [rows] to verify, or `NOTHING`; `numbers` are
    two of [0, 1) a row: to keep a token, NaN if it stands only where it would be drawn, and to
    draw one. No epsilons: where P = Q all is kept, where they share no token all is drawn anew, and
    −inf is a mass of nothing.
    """
    target = targets.double().exp()
    numbers, stands = numbers.to(target), stood.to(target.device).clamp(min=0)
    overlaps = target.gather(1, stands[:, None])[:, 0]
    drafted = [row for row, draft in enumerate(drafts) if draft is not None]
    if not drafted:
        return drawn(target, numbers[:, DRAW]), overlaps
    draft = torch.stack([d for d in drafts if d is not None]).double().exp()
    wanted = target[drafted]
    beside = stands[drafted, None]
    # u < P / Q without a division: what Q could draw has Q > 0, and u < 1 keeps all if P = Q
    to_keep = numbers[drafted, KEEP]
    kept = to_keep * draft.gather(1, beside)[:, 0] < overlaps[drafted]
    rest = target.clone()
    rest[drafted] = torch.where(to_keep[:, None].isnan(), wanted, residual(wanted, draft))
    tokens = drawn(rest, numbers[:, DRAW])
    tokens[drafted] = torch.where(kept, stands[drafted], tokens[drafted])
    overlaps[drafted] = overlap(wanted, draft)
    return tokens, overlaps


def overlap(target: Tensor, draft: Tensor) -> Tensor:
    """Σ min(P, Q) of each row, 1 − ½Σ|P − Q|: how much of what Q draws is kept (lemma 3).

    Both are probabilities [rows, vocab].
    """
    return torch.minimum(target, draft).sum(dim=-1)


def residual(target: Tensor, draft: Tensor) -> Tensor:
    """What a refused token is replaced from: max(P − Q, 0), of any sum; P itself where P = Q.

    Both are probabilities [rows, vocab].
    """
    lacking = (target - draft).clamp(min=0.0)
    equal = lacking.sum(dim=-1, keepdim=True) == 0.0
    return torch.where(equal, target, lacking)


def _random_numbers(checks: Sequence[Check]) -> Tensor:
    """Two numbers for each position, [rows, 2]; NaN for a text whose places have one number."""
    rows = [(check.draws, place) for check in checks for place in check.places]
    seeds, uses = [draws.seed for draws, _ in rows], [draws.use for draws, _ in rows]
    numbers = uniform(seeds, [place for _, place in rows], uses)
    numbers[[draws.by_place for draws, _ in rows], KEEP] = math.nan
    return torch.from_numpy(numbers)


def _warped(checks: Sequence[Check]) -> list[Tensor]:
    """The targets of each check; those that are sampled alike are warped together."""
    alike: dict[Sampling, list[int]] = defaultdict(list)
    for i, check in enumerate(checks):
        alike[check.sampling].append(i)
    targets: dict[int, Tensor] = {}
    for sampling, members in alike.items():
        rows = warp(torch.cat([checks[i].logprobs for i in members]), sampling)
        counts = [len(checks[i].tokens) for i in members]
        targets.update(zip(members, rows.split(counts), strict=True))
    return [targets[i] for i in range(len(checks))]
