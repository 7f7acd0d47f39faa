"""What a formula costs beside the bare model: forward passes and milliseconds for each token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from marith.demo.shown_requests import ShownRequest

ROUNDS = 2


class Cost(NamedTuple):
    """Of one token of a text, in the fastest of some rounds."""

    milliseconds: float
    passes: float

    @property
    def described(self) -> str:
        """Its numbers in words."""
        return f"{self.passes:.2f} forward passes, {self.milliseconds:.1f} ms"


def costs(requests: Sequence[ShownRequest]) -> list[Cost]:
    """The cost of each request alone, timed by turns, without drafts."""
    undrafted = [
        ShownRequest(request.label, request.options.over({"speculation": None}), request.prompt)
        for request in requests
    ]
    rounds = [[_cost(request) for request in undrafted] for _ in range(ROUNDS)]
    return [min(of_one) for of_one in zip(*rounds, strict=True)]


def _cost(request: ShownRequest) -> Cost:
    stats = request.submit().result().stats
    return Cost(1000 * stats.seconds / stats.tokens, stats.passes_per_token)
