"""The log-probabilities of the formula and of each of its terms at one position of a text."""

from __future__ import annotations

import math
from dataclasses import dataclass

from marith.formula.tree.nodes import PLAUSIBLE

RANKED = 1000  # a rank is exact up to this one; beyond it is None


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
