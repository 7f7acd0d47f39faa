"""A request's own random numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from marith.decoding.sampling import chance, generator
from marith.engine.request import Request


class Chances:
    """A request's numbers from [0, 1): for each position two, to keep what stands and to draw.

    With a seed and lengths that adapt, each position has one number of its own, and what stands
    is kept exactly if that number would draw it: so the text is the seed's, whatever was drafted
    and however long the drafts were. Otherwise every trial has numbers that no other had, and
    more is kept. A place that a text has gone back to has numbers that the text before had not.
    """

    def __init__(self, request: Request) -> None:
        self._source = generator(request.sampling)
        self._known: list[float] = []
        self._lost = 0
        self.by_place = request.sampling.seed is not None and request.speculation == "auto"

    def at(self, places: Sequence[int], guesses: Sequence[Tensor | None]) -> Tensor:
        """Numbers [positions, 2] for these positions; only a guess may be kept by chance."""
        if not self.by_place:
            pairs = [
                (self._chance() if guess is not None else 0.0, self._chance()) for guess in guesses
            ]
            return torch.tensor(pairs, dtype=torch.float64)
        while len(self._known) <= places[-1] + self._lost:
            self._known.append(self._chance())
        pairs = [(math.nan, self._known[place + self._lost]) for place in places]
        return torch.tensor(pairs, dtype=torch.float64)

    def lose(self, count: int) -> None:
        """So many final tokens have been taken back, and their numbers with them."""
        self._lost += count

    def _chance(self) -> float:
        return chance(self._source)
