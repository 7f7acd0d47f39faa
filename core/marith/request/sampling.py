"""How tokens are drawn."""

from __future__ import annotations

from dataclasses import dataclass, field

from marith.errors import names_checked
from marith.request.checks import by, hold, number, optional, whole_from

_INSTEAD = {
    **dict.fromkeys(("max_tokens", "max_new_tokens", "max_length"), "write Stop(max_tokens=…)"),
    **dict.fromkeys(("stop", "strings"), "write Stop(strings=['…'])"),
    "do_sample": "write temperature=0 for the likeliest tokens",
}


@names_checked(instead=_INSTEAD)
@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is drawn from the composed distribution.

    Applied in this order: `repetition_penalty` (Keskar et al., 2019: log-probabilities of tokens
    already in the continuation are multiplied by it), `temperature` (0 takes the likeliest),
    `top_k`, `top_p`, `min_p`. The same `seed` gives the same text; all its 64 bits are used.
    """

    temperature: float = field(
        default=1.0, metadata=by(number("a number from 0", lambda t: t >= 0))
    )
    top_k: int | None = field(default=None, metadata=by(optional(whole_from(1))))
    top_p: float = field(
        default=1.0, metadata=by(number("a number above 0 and up to 1", lambda p: 0 < p <= 1))
    )
    seed: int | None = field(default=None, metadata=by(optional(whole_from(-(2**63), 2**63 - 1))))
    min_p: float = field(
        default=0.0, metadata=by(number("a number from 0 to 1", lambda p: 0 <= p <= 1))
    )
    repetition_penalty: float = field(
        default=1.0, metadata=by(number("a number above 0", lambda r: r > 0))
    )

    def __post_init__(self) -> None:
        hold(self)


def sample_seed(seed: int, i: int) -> int:
    """The seed of sample `i` of a prompt: seed + i in 64 bits; the smallest follows the largest."""
    return (seed + i + 2**63) % 2**64 - 2**63
