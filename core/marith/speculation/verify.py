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
from itertools import islice

import torch
from torch import Tensor

from marith.decoding.random_numbers import DRAW, KEEP, Draws, uniform
from marith.decoding.sampling import drawn, warp
from marith.request.sampling import Sampling
from marith.tensor_rows import Row, gather, rows_of, vector

NOTHING = -1  # where a token is yet to be drawn


@dataclass(slots=True)
class Check:
    """Positions of one text to verify.

    `rows` [vocab], one a position, are composed and constrained, and not yet warped. `tokens` stand
    at `places`, `NOTHING` where nothing does. `drafts` are the warped distributions [vocab] that
    they were drawn from, None for a token that was proposed outright and for none. `draws` says
    which random numbers decide.
    """

    rows: Sequence[Row]
    sampling: Sampling
    places: Sequence[int]
    tokens: Sequence[int]
    drafts: Sequence[Row | None]
    draws: Draws


@dataclass(slots=True)
class Verdict:
    """The token at each position after verification, if those before it stand.

    `overlaps` are the probabilities that the drafted token would stand: Σ min(P, Q), 1 − the total
    variation of the two (paper, lemma 3), and P(x) for a token x that was proposed outright.
    `targets` [vocab] are the warped distributions of the tokens.
    """

    tokens: list[int]
    overlaps: list[float]
    targets: Sequence[Row]


def verify_all(checks: Sequence[Check]) -> list[Verdict]:
    """All positions of all checks, in as many tensor operations for many as for one."""
    if not checks:
        return []
    targets = _warped(checks)
    drafts = [d and vector(d) for check in checks for d in check.drafts]
    stood = torch.tensor([token for check in checks for token in check.tokens])
    verified, shared = verify(gather(targets), drafts, stood, _random_numbers(checks))
    tokens, overlaps = verified.tolist(), shared.tolist()
    verdicts, first = [], 0
    for check in checks:
        end = first + len(check.tokens)
        verdicts.append(Verdict(tokens[first:end], overlaps[first:end], targets[first:end]))
        first = end
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


def _warped(checks: Sequence[Check]) -> list[Row]:
    """The target of each position; texts that are sampled alike are warped together."""
    alike: dict[Sampling, list[int]] = defaultdict(list)
    for i, check in enumerate(checks):
        alike[check.sampling].append(i)
    targets: dict[int, list[Row]] = {}
    for sampling, members in alike.items():
        rows = gather([row for i in members for row in checks[i].rows])
        warped = iter(rows_of(warp(rows, sampling)))
        targets.update({i: list(islice(warped, len(checks[i].rows))) for i in members})
    return [target for i in range(len(checks)) for target in targets[i]]
