"""Verification: accept or reject drafted tokens, and replace a rejected token.

A token x that was drawn from a draft Q is kept with probability min(1, P(x) / Q(x)), where P is the
target. Otherwise it is replaced by a token drawn from max(P − Q, 0), normalised. The result is
distributed as P, whatever Q is (paper, algorithm 1, after Leviathan et al., 2023). Applied at each
stage, verification leads from the first stage's distribution to the whole formula's (section 4,
lemma 1).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice

import torch
from torch import Tensor

from marith.decoding.random_numbers import DRAW, KEEP, Draws, uniform
from marith.decoding.sampling import DRAWN_FROM_NAN, drawn, require_numbers, warp
from marith.formula.tree.terms import Term
from marith.request.sampling import Sampling
from marith.speculation.execution_plan import ExecutionPlan, Groups, Stage
from marith.tensor_rows import Row, gather, rows_of, vector

NOT_DRAFTED = -1  # in place of a token, at a position without a token


@dataclass(slots=True)
class Check:
    """Positions of one text to verify.

    `rows` [vocab], one for each position, are composed and constrained, but not yet warped.
    `tokens` are the tokens at `places`, or `NOT_DRAFTED`. `drafts` are the warped distributions
    [vocab] from which the tokens were drawn; None for `NOT_DRAFTED` and for a token that was
    proposed without a distribution. `draws` selects the random numbers.
    """

    rows: Sequence[Row]
    sampling: Sampling
    places: Sequence[int]
    tokens: Sequence[int]
    drafts: Sequence[Row | None]
    draws: Draws


@dataclass(slots=True)
class Verdict:
    """The token at each position after verification, if all tokens before it are accepted.

    `overlaps` are the probabilities that a drafted token is accepted. They are Σ min(P, Q), which
    is 1 − the total variation of P and Q (paper, lemma 3), or P(x) for a token x that was proposed
    without a distribution. `targets` [vocab] are the warped distributions of the tokens.
    """

    tokens: list[int]
    overlaps: list[float]
    targets: Sequence[Row]


def verify_all(checks: Sequence[Check]) -> list[Verdict]:
    """Verify all positions of all checks, with the same number of tensor operations as for one."""
    if not checks:
        return []
    targets = _warped(checks)
    drafts = [d and vector(d) for check in checks for d in check.drafts]
    proposed = torch.tensor([token for check in checks for token in check.tokens])
    verified, shared = verify(gather(targets), drafts, proposed, _random_numbers(checks))
    # One tensor, so that a step waits once for the device: float64 holds every token.
    tokens, overlaps = torch.stack((verified.to(shared.dtype), shared)).tolist()
    require_numbers(tokens)
    verdicts, first = [], 0
    for check in checks:
        end = first + len(check.tokens)
        chosen = [int(token) for token in tokens[first:end]]
        verdicts.append(Verdict(chosen, overlaps[first:end], targets[first:end]))
        first = end
    return verdicts


def verify(
    targets: Tensor, drafts: Sequence[Tensor | None], proposed: Tensor, numbers: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the verified tokens [rows] and the overlaps [rows], from normalised log-probabilities.

    `targets` is [rows, vocab]. `proposed` has the tokens [rows] to verify, or `NOT_DRAFTED`.
    `numbers` has two numbers from [0, 1) for each row. The first decides whether the token is kept;
    if it is NaN, the token is kept only if it would be drawn anyway. The second draws a token.
    There are no epsilons: if P = Q every token is kept, if they share no token every token is
    replaced, and −inf is probability 0.
    """
    target = targets.double().exp()
    numbers, stands = numbers.to(target), proposed.to(target.device).clamp(min=0)
    overlaps = target.gather(1, stands[:, None])[:, 0]
    drafted = [row for row, draft in enumerate(drafts) if draft is not None]
    if not drafted:
        return drawn(target, numbers[:, DRAW]), overlaps
    draft = torch.stack([d for d in drafts if d is not None]).double().exp()
    draft_targets = target[drafted]
    draft_tokens = stands[drafted, None]
    # u < P / Q without a division: a drawn token has Q > 0, and u < 1 keeps every token if P = Q
    to_keep = numbers[drafted, KEEP]
    kept = to_keep * draft.gather(1, draft_tokens)[:, 0] < overlaps[drafted]
    masses = target.clone()
    by_place = to_keep[:, None].isnan()
    masses[drafted] = torch.where(by_place, draft_targets, residual(draft_targets, draft))
    tokens = drawn(masses, numbers[:, DRAW])
    replaced = tokens[drafted]
    tokens[drafted] = torch.where(kept & (replaced != DRAWN_FROM_NAN), stands[drafted], replaced)
    overlaps[drafted] = overlap(draft_targets, draft)
    return tokens, overlaps


def overlap(target: Tensor, draft: Tensor) -> Tensor:
    """Return Σ min(P, Q) = 1 − ½Σ|P − Q| of each row: the chance that a token of Q is kept.

    Both arguments are probabilities [rows, vocab] (paper, lemma 3).
    """
    return torch.minimum(target, draft).sum(dim=-1)


def residual(target: Tensor, draft: Tensor) -> Tensor:
    """Return the masses from which a rejected token is replaced: max(P − Q, 0), or P if P = Q.

    Both arguments are probabilities [rows, vocab].
    """
    lacking = (target - draft).clamp(min=0.0)
    equal = lacking.sum(dim=-1, keepdim=True) == 0.0
    return torch.where(equal, target, lacking)


def _random_numbers(checks: Sequence[Check]) -> Tensor:
    """Return two numbers for each position, [rows, 2]; the first is NaN if `Draws.by_place`."""
    rows = [(check.draws, place) for check in checks for place in check.places]
    seeds, uses = [draws.seed for draws, _ in rows], [draws.use for draws, _ in rows]
    numbers = uniform(seeds, [place for _, place in rows], uses)
    numbers[[draws.by_place for draws, _ in rows], KEEP] = math.nan
    return torch.from_numpy(numbers)


def _warped(checks: Sequence[Check]) -> list[Row]:
    """Return the target of each position. Texts with equal `Sampling` are warped together."""
    by_sampling: dict[Sampling, list[int]] = defaultdict(list)
    for i, check in enumerate(checks):
        by_sampling[check.sampling].append(i)
    targets: dict[int, list[Row]] = {}
    for sampling, members in by_sampling.items():
        rows = gather([row for i in members for row in checks[i].rows])
        warped = iter(rows_of(warp(rows, sampling)))
        targets.update({i: list(islice(warped, len(checks[i].rows))) for i in members})
    return [target for i in range(len(checks)) for target in targets[i]]


class VerificationOrder:
    """The positions that each stage has verified in one text, and the next stage. Keeps state.

    `rooms` has the number of tokens that fit into the context of each draft.
    """

    def __init__(self, plan: ExecutionPlan, rooms: Mapping[Term, int]) -> None:
        self.plan = plan
        self.rooms = rooms
        self.groups: Groups = plan.at_once if plan.adapts else plan.groups
        self.sizes: tuple[int, ...] = (1,) if plan.adapts else plan.sizes
        self.reached = [0] * len(self.groups)  # positions verified by each group

    @property
    def final(self) -> int:
        """The number of positions that all stages have verified."""
        return self.reached[-1]

    def begin(self, length: int, drafted: int, by_models: bool) -> None:
        """Let the terms verify `drafted` tokens from now on, drafted by models or by proposers."""
        self.groups = self.plan.groups if by_models else self.plan.at_once
        self.sizes = (*[1] * (len(self.groups) - 1), drafted + 1)
        self.reached = [length] * len(self.groups)

    def next(self, length: int, end: int) -> tuple[Stage, range]:
        """Return the stage that verifies a text of this length, and its positions before `end`.

        It is the last stage that is due and has such positions. If no stage is due, because the
        text is closed or no proposer has a token, return the stage that would be due after more
        tokens, so that the last token has no influence.
        """
        for assumed_length in count(length):
            stages = self.stages(assumed_length)
            due = [stage for stage in stages if self.due(stage) <= assumed_length]
            if due and due[0] is not stages[0]:  # the first stage is due whenever another one is
                due.insert(0, stages[0])
            for stage in reversed(due):
                not_due = [s for s in stages[: stages.index(stage)] if s not in due]
                needed = self.plan.needed(stage.formula)
                ends = [self.reached[s.index] for s in not_due if s.terms.intersection(needed)]
                places = range(self.reached[stage.index], min([end, *ends]))
                if places:
                    return stage, places
        raise AssertionError("the last stage is due at some length")

    def advance(self, stage: Stage, verified: int, length: int) -> None:
        """Record that a stage has verified `verified` positions of a text of `length` tokens."""
        for i, reached in enumerate(self.reached):
            self.reached[i] = min(max(reached, verified if i <= stage.index else 0), length)

    def tokens_until_due(self, length: int) -> int:
        """Return the number of tokens that may be added before a stage is due."""
        return min(map(self.due, self.stages(length))) - length

    def rewind(self, place: int) -> None:
        """Record that every stage has verified the positions before `place`, and no more."""
        self.reached = [place] * len(self.reached)

    def stages(self, length: int) -> tuple[Stage, ...]:
        """Return the stages at a text of this length."""
        return self.plan.stages(self.groups, self.beyond(length))

    def due(self, stage: Stage) -> int:
        """Return the length at which a stage is due."""
        return self.reached[stage.index] + self.sizes[stage.index] - 1

    def beyond(self, length: int) -> frozenset[Term]:
        """Return the drafts in whose contexts a text of this length does not fit."""
        return frozenset(t for t in self.plan.drafts if length >= self.rooms.get(t, math.inf))
