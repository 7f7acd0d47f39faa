"""Tokens that were drawn before every term had spoken: which stand, and what follows.

A token x that was drawn from a guess Q is kept with probability min(1, P(x) / Q(x)), else drawn
anew from what P has and Q lacks: what results is distributed as P, whatever Q was (paper,
algorithm 1, after Leviathan et al., 2023). Applied from one distribution to the next, it leads
from the first that could be said to the whole formula (paper, section 4, lemma 1).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from marith.decoding import cuts
from marith.decoding.random_numbers import DRAW, KEEP, Draws, uniform
from marith.decoding.sampling import Sampling, drawn, warp

NOTHING = -1  # where a token is yet to be drawn


@dataclass(frozen=True, slots=True)
class Trial:
    """Positions of one text: what stands there, and what it should be drawn from.

    `logprobs` [positions, vocab] are composed and not yet warped; each position follows so many
    tokens of `text` as `places` says. `allowed` [positions, vocab] are the tokens that a grammar
    lets stand there, None for all. `tokens` are what stands there, `NOTHING` where nothing
    does. `guesses` are the warped distributions that they were drawn from, None for a token that
    was proposed outright and for none. `draws` says by which random numbers all this is decided.
    """

    logprobs: Tensor
    sampling: Sampling
    text: Sequence[int]
    places: Sequence[int]
    tokens: Sequence[int]
    guesses: Sequence[Tensor | None]
    draws: Draws
    allowed: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What stands at each position after a trial, each given that those before it stand.

    `overlaps` are the probabilities that what stood there would: Σ min(P, Q), 1 − the total
    variation of the two (paper, lemma 3), and P(x) for a token x that was proposed outright.
    `truths` [positions, vocab] are the warped distributions of what stands now.
    """

    tokens: list[int]
    overlaps: list[float]
    truths: Tensor


def settle(trials: Sequence[Trial]) -> list[Verdict]:
    """All positions of all trials at once: as many tensor operations for many as for one.

    The device is waited for so many times a step, not once a token.
    """
    truths = _warped(trials)
    guesses = [guess for trial in trials for guess in trial.guesses]
    stood = torch.tensor([token for trial in trials for token in trial.tokens])
    told, shared = verify(torch.cat(truths), guesses, stood, _chances(trials))
    tokens, overlaps = told.tolist(), shared.tolist()
    verdicts, first = [], 0
    for trial, truth in zip(trials, truths, strict=True):
        own = slice(first, first + len(trial.tokens))
        verdicts.append(Verdict(tokens[own], overlaps[own], truth))
        first = own.stop
    return verdicts


def verify(
    truths: Tensor, guesses: Sequence[Tensor | None], stood: Tensor, chances: Tensor
) -> tuple[Tensor, Tensor]:
    """The tokens [rows] that follow, and the overlaps [rows], from normalised log-probabilities.

    `truths` is [rows, vocab]; see `Trial` for the others, and `_chances`. No epsilons: where P = Q
    all is kept, where they share no token all is drawn anew, and −inf is a mass of nothing.
    """
    truth = truths.double().exp()
    chances, stands = chances.to(truth), stood.to(truth.device).clamp(min=0)
    overlaps = truth.gather(1, stands[:, None])[:, 0]
    guessed = [row for row, guess in enumerate(guesses) if guess is not None]
    if not guessed:
        return drawn(truth, chances[:, DRAW]), overlaps
    guess = torch.stack([g for g in guesses if g is not None]).double().exp()
    wanted = truth[guessed]
    beside = stands[guessed, None]
    # u < P / Q without a division: what Q could draw has Q > 0, and u < 1 keeps all if P = Q
    to_keep = chances[guessed, KEEP]
    kept = to_keep * guess.gather(1, beside)[:, 0] < overlaps[guessed]
    rest = truth.clone()
    rest[guessed] = torch.where(to_keep[:, None].isnan(), wanted, residual(wanted, guess))
    tokens = drawn(rest, chances[:, DRAW])
    tokens[guessed] = torch.where(kept, stands[guessed], tokens[guessed])
    overlaps[guessed] = overlap(wanted, guess)
    return tokens, overlaps


def overlap(truth: Tensor, guess: Tensor) -> Tensor:
    """Σ min(P, Q) of each row, 1 − ½Σ|P − Q|: how much of what Q draws is kept (lemma 3).

    Both are probabilities [rows, vocab].
    """
    return torch.minimum(truth, guess).sum(dim=-1)


def residual(truth: Tensor, guess: Tensor) -> Tensor:
    """What a refused token is drawn from: max(P − Q, 0), of any sum; P itself where P = Q.

    Both are probabilities [rows, vocab].
    """
    lacking = (truth - guess).clamp(min=0.0)
    equal = lacking.sum(dim=-1, keepdim=True) == 0.0
    return torch.where(equal, truth, lacking)


def _chances(trials: Sequence[Trial]) -> Tensor:
    """The random numbers [rows, 2] of all positions: to keep what stands, and to draw.

    NaN where a token stands only if it would be drawn.
    """
    rows = [(trial.draws, place) for trial in trials for place in trial.places]
    seeds, uses = [draws.seed for draws, _ in rows], [draws.use for draws, _ in rows]
    chances = uniform(seeds, [place for _, place in rows], uses)
    chances[[draws.by_place for draws, _ in rows], KEEP] = math.nan
    return torch.from_numpy(chances)


def _warped(trials: Sequence[Trial]) -> list[Tensor]:
    """The truths of each trial; those that are sampled alike are warped together."""
    alike: dict[Sampling, list[int]] = defaultdict(list)
    truths: dict[int, Tensor] = {}
    for i, trial in enumerate(trials):
        if trial.sampling.repetition_penalty == 1.0:
            alike[trial.sampling].append(i)
        else:
            truths[i] = _warped_by_row(trial)
    for sampling, members in alike.items():
        rows = warp(torch.cat([_lawful(trials[i]) for i in members]), sampling)
        counts = [len(trials[i].tokens) for i in members]
        truths.update(zip(members, rows.split(counts), strict=True))
    return [truths[i] for i in range(len(trials))]


def _lawful(trial: Trial) -> Tensor:
    """What a grammar allows of the composed distribution, normalised."""
    if trial.allowed is None:
        return trial.logprobs
    return cuts.keep(trial.logprobs, trial.allowed.to(trial.logprobs.device))


def _warped_by_row(trial: Trial) -> Tensor:
    """Each position has seen other tokens, which the repetition penalty counts."""
    rows = zip(_lawful(trial), trial.places, strict=True)
    return torch.cat([warp(row[None], trial.sampling, trial.text[:at]) for row, at in rows])
