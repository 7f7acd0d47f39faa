"""A position of an inspected text, and the characters of tokens, as plain data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from marith.formula.tree.nodes import PLAUSIBLE

RANKED = 1000  # a rank is exact up to this one; beyond it is None
PartKind: TypeAlias = Literal["exact", "leave_one_out"]
TermKind: TypeAlias = Literal["model", "n-gram", "uniform", "classifier", "other"]


@dataclass(frozen=True, slots=True)
class TokenRun:
    """A token, or the tokens of one character, with their text."""

    text: str
    positions: Sequence[InspectedPosition]

    @property
    def logprob(self) -> float | None:
        """The log-probability of all tokens together; None where one cannot follow."""
        return _sum([position.logprob for position in self.positions])

    @property
    def push(self) -> float | None:
        """How much likelier the formula made all tokens together, in nats."""
        return _sum([position.push for position in self.positions])

    @property
    def flipped(self) -> bool:
        """Whether one of the tokens is not the bare model's likeliest."""
        return any(position.flipped for position in self.positions)


def runs_of(positions: Sequence[InspectedPosition]) -> Iterator[TokenRun]:
    """The tokens in their order; those of one character together."""
    parts: list[InspectedPosition] = []
    for position in positions:
        if position.completed is None:
            yield TokenRun(position.text, [position])
        else:
            parts.append(position)
            if position.completed:
                yield TokenRun(position.completed, parts)
                parts = []
    if parts:
        yield TokenRun("".join(position.text for position in parts), parts)


def _sum(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


@dataclass(frozen=True, slots=True)
class InspectedTerm:
    """A term of the formula: its text, the names that stand for it, and what computes it.

    A "classifier" has log-ratios, log C(x₁..x_k) − log C(x₁..x_{k−1}) and 0 outside its candidates,
    where other terms have log-probabilities; it has no rank, entropy or divergence.
    """

    text: str
    names: tuple[str, ...]
    kind: TermKind


@dataclass(frozen=True, slots=True)
class InspectedPart:
    """What a contribution is of: `exact` parts are summands of the score, `leave_one_out` terms.

    The formula is P = softmax(S / W), with the score S = Σ sᵢ of the flattened sum and its weight
    W (theorem 1 of the paper). The part i contributes sᵢ(t)/W(t) − sᵢ(r)/W(r) to the log-odds of
    the token t against the reference r, which is (sᵢ(t) − sᵢ(r)) / W unless the weight differs from
    token to token, as only that of an application's own node can. These contributions add up to
    log P(t) − log P(r), wherever both tokens can follow. A summand is a term times its
    factor, or a union, an intersection, a condition and so on as a whole.

    A term within such a part, within a cut or within a factor, also a classifier but not `M`, is
    left out in addition: its contribution is how much smaller the log-odds are where its
    distribution is replaced by that of the bare model, or a classifier's guidance by 0. These do
    not add up. The candidates of classifiers, and what is known of the text so far, stay as they
    were.

    `text` is the part as formula text; `term` is its index in `Inspection.terms`, None for a part
    that is no single term.
    """

    text: str
    kind: PartKind
    term: int | None


@dataclass(frozen=True, slots=True)
class LikelyToken:
    """A token, its text, and its log-probability in nats; None where it cannot follow.

    A token that is part of a character has "�" in its text.
    """

    token: int
    text: str
    logprob: float | None


@dataclass(frozen=True, slots=True)
class TermView:
    """The log-probabilities of one term at one position.

    `logprob` and `rank` are those of the text's token; `of_top` and `ranks_of_top` those of the
    composed likeliest tokens, in their order; `top` are the term's own likeliest tokens. A rank is
    1 plus the number of tokens that are likelier; None stands for more than 1,000. `weight` is the
    number by which the term's log-probabilities are multiplied here, the sum over all summands that
    are this term times a factor; None for a term that is only within other parts. Where the factor
    differs from token to token, it is that of the text's token. `entropy` is the term's own, and
    `kl` is KL(term ‖ composed), both in nats; None where infinite, and for a classifier.
    """

    logprob: float | None
    rank: int | None
    weight: float | None
    entropy: float | None
    kl: float | None
    of_top: tuple[float | None, ...]
    ranks_of_top: tuple[int | None, ...]
    top: tuple[LikelyToken, ...]


@dataclass(frozen=True, slots=True)
class Contribution:
    """How much one part adds to the log-odds of the token against the reference, in nats.

    `of_top` has the same for each of the composed likeliest tokens. None where the token or the
    reference cannot follow.
    """

    value: float | None
    of_top: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class InspectedPosition:
    """One position of a text.

    `place` is the number of tokens of the continuation before it. `logprob` and `rank` are those of
    the token by the composed distribution, before temperature, cuts of `Sampling`, grammar and
    bans; `top` are its likeliest tokens, best first. `entropy` is the composed one in nats, and
    `weight` the total weight of the formula here, by which scores are divided.

    `bare_logprob` and `bare_rank` are those of the token by the bare model `M`, whether the formula
    has it or not; `bare_likeliest` is its likeliest token, and `bare_of_top` its log-probabilities
    of the composed likeliest tokens. A position is `flipped` where the token is the formula's
    likeliest and not the bare model's: what sampling drew against both is no work of the formula.

    `reference` is the token that `log_odds` and `contributions` compare with, and its composed
    log-probability: the bare model's likeliest, or, where that is the token itself or cannot
    follow, the likeliest other token by the composed distribution. `log_odds` is log P(token) −
    log P(reference) in float64: the sum of the exact contributions.

    Of a token that is part of a character, `completed` is the text of what it completes: "" before
    the last part. It is None for every other token.
    """

    place: int
    token: int
    text: str
    logprob: float | None
    rank: int | None
    entropy: float | None
    weight: float | None
    top: tuple[LikelyToken, ...]
    bare_logprob: float | None
    bare_rank: int | None
    bare_likeliest: LikelyToken
    bare_of_top: tuple[float | None, ...]
    flipped: bool
    reference: LikelyToken
    log_odds: float | None
    terms: tuple[TermView, ...]
    contributions: tuple[Contribution, ...]
    observations: tuple[float | None, ...]
    completed: str | None

    @property
    def push(self) -> float | None:
        """How much likelier the formula made the token: log P(token) − log P_M(token), in nats."""
        if self.logprob is None or self.bare_logprob is None:
            return None
        return self.logprob - self.bare_logprob

    @property
    def implausible(self) -> bool:
        """Whether no term finds the token a tenth as likely as its own likeliest token."""
        views = [view for view in self.terms if view.top]
        return bool(views) and not any(map(_finds_plausible, views))


def _finds_plausible(view: TermView) -> bool:
    best = view.top[0].logprob
    if view.logprob is None or best is None:
        return False
    return view.logprob >= best + math.log(PLAUSIBLE)
