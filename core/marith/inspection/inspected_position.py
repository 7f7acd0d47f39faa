"""A position of an inspected text, as plain data, and the tokens that make up one character."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from marith.formula.tree.nodes import PLAUSIBLE

RANKED = 1000  # the largest rank that is exact; larger ranks are None
PartKind: TypeAlias = Literal["exact", "leave_one_out"]
TermKind: TypeAlias = Literal["model", "n-gram", "uniform", "classifier", "other"]


@dataclass(frozen=True, slots=True)
class TokenRun:
    """A token, or the tokens that make up one character, with their text."""

    text: str
    positions: Sequence[InspectedPosition]

    @property
    def logprob(self) -> float | None:
        """The summed log-probability of the tokens; None if a token cannot follow."""
        return _sum([position.logprob for position in self.positions])

    @property
    def push(self) -> float | None:
        """The summed push of the tokens, in nats."""
        return _sum([position.push for position in self.positions])

    @property
    def flipped(self) -> bool:
        """True if one of the tokens is flipped."""
        return any(position.flipped for position in self.positions)


def runs_of(positions: Sequence[InspectedPosition]) -> Iterator[TokenRun]:
    """Yield the tokens in order. Tokens that together make up one character are joined."""
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
    """A term of the formula: its text, its names, and its kind.

    A classifier has log-ratios instead of log-probabilities: log C(x₁..x_k) − log C(x₁..x_{k−1}),
    and 0 outside its candidates. It has no rank, entropy or divergence.
    """

    text: str
    names: tuple[str, ...]
    kind: TermKind


@dataclass(frozen=True, slots=True)
class InspectedPart:
    """A part of the formula whose contribution is computed.

    The formula is P = softmax(S / W), with the score S = Σ sᵢ and the weight W (theorem 1 of the
    paper). An `exact` part is a summand sᵢ: a term times the sum of its factors, or another
    operator as a whole, such as a union. It adds sᵢ(t)/W(t) − sᵢ(r)/W(r) to the log-odds of token t
    against reference r. Exact contributions add up to log P(t) − log P(r) if both tokens can
    follow. W is equal for all tokens, except in an application's own node.

    A `leave_one_out` part is a term, except `M`, within such an operator, a cut or a factor. Its
    contribution is the decrease of the log-odds when the bare model's distribution takes the term's
    place. For a classifier, it is the decrease when the guidance is set to 0. Candidates and
    observations stay the same. These contributions do not add up to the log-odds.

    `text` is the part as formula text. `term` is its index in `Inspection.terms`, or None if the
    part is not a single term.
    """

    text: str
    kind: PartKind
    term: int | None


@dataclass(frozen=True, slots=True)
class LikelyToken:
    r"""A token and its log-probability in nats, or None if it cannot follow.

    `text` has the bytes of an incomplete character as `\xc3`.
    """

    token: int
    text: str
    logprob: float | None


@dataclass(frozen=True, slots=True)
class PushedToken:
    """A token, and the push that vectors give it in nats; see `VectorPush`."""

    token: int
    text: str
    push: float | None


@dataclass(frozen=True, slots=True)
class VectorPush:
    """The pushes that the vectors of a term give to tokens at one position, in nats.

    The push of a token is its log-probability under the term, minus its log-probability under the
    same term without vectors. A push is None if one of the two is infinite. `push` belongs to the
    text's token. `raised` and `lowered` have the tokens whose probabilities the vectors raise and
    lower most, at most `Inspection.top` of each, the largest change first.
    """

    push: float | None
    raised: tuple[PushedToken, ...]
    lowered: tuple[PushedToken, ...]


@dataclass(frozen=True, slots=True)
class TermView:
    """The log-probabilities of one term at one position.

    `logprob` and `rank` belong to the text's token. `of_top` and `ranks_of_top` have a number for
    each of the formula's likeliest tokens. `top` has the likeliest tokens of the term itself. A
    rank is 1 plus the number of likelier tokens, or None above 1,000. `weight` is the sum of the
    term's factors in the score (for the text's token, if factors differ between tokens), or None if
    the term occurs only inside other parts. `entropy` and `kl`, which is KL(term ‖ composed), are
    in nats. They are None if infinite, and for a classifier. `vectors` is None for a term without
    control vectors.
    """

    logprob: float | None
    rank: int | None
    weight: float | None
    entropy: float | None
    kl: float | None
    of_top: tuple[float | None, ...]
    ranks_of_top: tuple[int | None, ...]
    top: tuple[LikelyToken, ...]
    vectors: VectorPush | None


@dataclass(frozen=True, slots=True)
class Contribution:
    """The number that one part adds to the log-odds of the token against the reference, in nats.

    `of_top` has this number for each of the formula's likeliest tokens. A number is None if its
    token or the reference cannot follow.
    """

    value: float | None
    of_top: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class InspectedPosition:
    """One position of a text.

    `place` is the number of tokens of the continuation before it. `logprob`, `rank`, `top` and
    `entropy` (in nats) describe the composed distribution before `Sampling`, grammar and bans, with
    all cuts of the formula. `logprob` is None for a token that the cuts exclude, which was drawn
    without them. `weight` is the total weight by which scores are divided.

    `bare_logprob`, `bare_rank` and `bare_likeliest` describe the bare model `M`, even if the
    formula does not contain it. `bare_of_top` has the bare model's log-probabilities of the tokens
    in `top`. A position is `flipped` if its token is the formula's likeliest token but not the bare
    model's.

    `log_odds` is log P(token) − log P(reference) in float64, the sum of the exact contributions.
    `reference` is the bare model's likeliest token. If that is the token itself, or cannot follow,
    `reference` is the formula's likeliest other token.

    `completed` is None for a token with whole characters. If several tokens make up one character,
    the last of them has the text of the character, and the tokens before it have "".
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
        """The log-probability that the formula adds: log P(token) − log P_M(token), in nats."""
        if self.logprob is None or self.bare_logprob is None:
            return None
        return self.logprob - self.bare_logprob

    @property
    def implausible(self) -> bool:
        """True if the token is, to every term, under a tenth as likely as the term's likeliest."""
        views = [view for view in self.terms if view.top]
        return bool(views) and not any(map(_finds_plausible, views))


def _finds_plausible(view: TermView) -> bool:
    best = view.top[0].logprob
    if view.logprob is None or best is None:
        return False
    return view.logprob >= best + math.log(PLAUSIBLE)
