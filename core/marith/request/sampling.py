"""How a token is drawn, as a caller says it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from marith.errors import RequestError, shown
from marith.formula.scalars import finite, whole


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
