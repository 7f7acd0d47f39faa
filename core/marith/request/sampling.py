"""The options for sampling tokens from the composed distribution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from marith.errors import RequestError, names_checked, shown
from marith.request.checks import (
    check_fields,
    checked_by,
    finite,
    number,
    optional,
    whole,
    whole_from,
)
from marith.request.other_names import AT_SAMPLING

Bias: TypeAlias = "Mapping[int, float] | tuple[tuple[int, float], ...]"
# A logit_bias has at most this number of tokens, because each token costs an addition to every row
# of log-probabilities.
MOST_BIASES = 1024


def token_biases(name: str, value: Any) -> tuple[tuple[int, float], ...]:
    """Check that a value maps token ids to numbers. Return it as sorted pairs."""
    rule = f"{name} must map token ids to finite numbers to add to log-probabilities"
    form = f"{rule}, as in {{50256: -100.0}}"
    try:
        pairs = dict(value)
    except (TypeError, ValueError):
        raise RequestError(f"{form}, not {shown(value)}") from None
    if len(pairs) > MOST_BIASES:
        raise RequestError(f"{name} must have at most {MOST_BIASES} tokens, not {len(pairs)}")
    biases: dict[int, float] = {}
    for token, bias in pairs.items():
        # The keys of a JSON object are texts.
        written = isinstance(token, str) and token.isascii() and token.isdigit()
        number = finite(bias)
        if number is None:
            raise RequestError(f"{form}; the value of {shown(token)} is {shown(bias)}")
        biases[whole(f"a token of {name}", int(token) if written else token, 0)] = number
    return tuple(sorted(biases.items()))


@names_checked(AT_SAMPLING)
@dataclass(frozen=True, slots=True)
class Sampling:
    """The options for sampling a token from the composed distribution.

    They apply in this order:

    - `repetition_penalty` multiplies the log-probabilities of tokens that occur in the prompt, as
      `M` reads it, or in the continuation (Keskar et al., 2019). transformers and vLLM also apply
      it to tokens of the prompt and of the continuation.
    - `logit_bias` is added to log-probabilities by token id. `presence_penalty` is subtracted once
      from each token that occurs in the continuation, and `frequency_penalty` once for each
      occurrence, as in OpenAI's API.
    - `temperature` (0 takes the likeliest token), `top_k`, `top_p`, `min_p`.

    The values in a checkpoint's `generation_config.json` are not applied, because a formula means
    the same for every checkpoint; the log names them. The same `seed` gives the same text. All 64
    bits of the seed are used.
    """

    temperature: float = field(
        default=1.0,
        metadata=checked_by(number("a number of at least 0", lambda t: t >= 0), untrusted=True),
    )
    top_k: int | None = field(
        default=None, metadata=checked_by(optional(whole_from(1)), untrusted=True)
    )
    top_p: float = field(
        default=1.0,
        metadata=checked_by(
            number("a number above 0 and up to 1", lambda p: 0 < p <= 1), untrusted=True
        ),
    )
    seed: int | None = field(
        default=None, metadata=checked_by(optional(whole_from(-(2**63), 2**63 - 1)), untrusted=True)
    )
    min_p: float = field(
        default=0.0,
        metadata=checked_by(number("a number from 0 to 1", lambda p: 0 <= p <= 1), untrusted=True),
    )
    repetition_penalty: float = field(
        default=1.0,
        metadata=checked_by(number("a number above 0", lambda r: r > 0), untrusted=True),
    )
    presence_penalty: float = field(
        default=0.0, metadata=checked_by(number("a finite number", lambda _: True), untrusted=True)
    )
    frequency_penalty: float = field(
        default=0.0, metadata=checked_by(number("a finite number", lambda _: True), untrusted=True)
    )
    logit_bias: Bias = field(default=(), metadata=checked_by(token_biases, untrusted=True))

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def penalises(self) -> bool:
        """True if the log-probabilities of particular tokens change, by a penalty or bias."""
        counts = self.presence_penalty or self.frequency_penalty
        return bool(self.repetition_penalty != 1.0 or counts or self.logit_bias)

    @property
    def warping(self) -> Sampling:
        """These options without penalties, biases and seed."""
        return replace(
            self, seed=None, repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0,
            logit_bias=(),
        )  # fmt: skip


def sample_seed(seed: int, i: int) -> int:
    """Return the seed of sample `i` of a prompt: seed + i, wrapped to signed 64 bits."""
    return (seed + i + 2**63) % 2**64 - 2**63
