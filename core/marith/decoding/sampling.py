"""From a distribution to one token: warping, and the draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from marith.decoding import cuts
from marith.decoding.constraints.repetition import penalised
from marith.errors import FormulaError, RequestError, shown
from marith.formula.scalars import finite, whole

COLDEST = 1e-30  # below it float32 divides by zero; from it down only the likeliest is drawn


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a token is drawn from the composed distribution.

    Applied in this order: `repetition_penalty` (Keskar et al., 2019: log-probabilities of tokens
    already in the continuation are multiplied by it), `temperature` (0 takes the likeliest),
    `top_k`, `top_p`, `min_p`. The same `seed` gives the same text; all its 64 bits count.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int | None = None
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        for name, (what, holds) in _NUMBERS.items():
            object.__setattr__(self, name, _number(name, getattr(self, name), what, holds))
        if self.top_k is not None:
            object.__setattr__(self, "top_k", whole("top_k", self.top_k, 1))
        if self.seed is not None:
            object.__setattr__(self, "seed", whole("seed", self.seed, -(2**63), 2**63 - 1))


_NUMBERS: dict[str, tuple[str, Callable[[float], bool]]] = {
    "temperature": ("a number from 0", lambda t: t >= 0),
    "top_p": ("a number above 0 and up to 1", lambda p: 0 < p <= 1),
    "min_p": ("a number from 0 to 1", lambda p: 0 <= p <= 1),
    "repetition_penalty": ("a number above 0", lambda r: r > 0),
}


def _number(name: str, value: Any, what: str, holds: Callable[[float], bool]) -> float:
    number = finite(value)
    if number is None or not holds(number):
        raise RequestError(f"{name} is {what}, not {shown(value)}")
    return number


def warp(logprobs: Tensor, sampling: Sampling, continuation: Sequence[int] = ()) -> Tensor:
    """The distribution that is drawn from, [positions, vocab], normalised.

    `continuation` holds the tokens so far, which the repetition penalty counts as seen.
    """
    if sampling.repetition_penalty != 1.0:
        logprobs = penalised(logprobs, continuation, sampling.repetition_penalty)
    if sampling.temperature == 0.0:
        return cuts.keep(logprobs, cuts.top_k(logprobs, 1))
    if sampling.temperature != 1.0:
        below = logprobs - logprobs.amax(dim=-1, keepdim=True)  # the likeliest stays finite
        logprobs = torch.log_softmax(below / max(sampling.temperature, COLDEST), dim=-1)
    if sampling.top_k is not None:
        logprobs = cuts.keep(logprobs, cuts.top_k(logprobs, sampling.top_k))
    if sampling.top_p < 1.0:
        logprobs = cuts.keep(logprobs, cuts.top_p(logprobs, sampling.top_p))
    if sampling.min_p > 0.0:
        logprobs = cuts.keep(logprobs, cuts.plausible(logprobs, sampling.min_p))
    return logprobs


def drawn(masses: Tensor, chances: Tensor) -> Tensor:
    """A token for each row of `masses` [rows, vocab] and each of `chances` [rows], in [0, 1).

    Masses are of any sum. By inverting the distribution function in float64, so that a text
    hangs on the seed and not on how many tokens the vocabulary has or which kernel summed them.
    Raises FormulaError for what is no number.
    """
    reached = masses.double().cumsum(dim=-1)
    total = reached[:, -1:].contiguous()
    if bool(total.isnan().any()):
        raise FormulaError("the composed distribution is not a number (NaN)")
    at = chances.to(total)[:, None] * total
    tokens = torch.searchsorted(reached, at, right=True)
    last = torch.searchsorted(reached, total)  # a chance that rounds up to one
    return torch.minimum(tokens, last)[:, 0]
