"""How likely a model finds the whole text so far, kept by lane as long as the text goes on."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor

from marith.scoring.passes.lanes import common

NUMBERS = 1 << 23  # log-probabilities that all likelihoods of one call return at most


Cost: TypeAlias = tuple[frozenset[int], int]  # passes, and how many tokens were at hand
_NOTHING: Cost = frozenset(), 0


@dataclass(slots=True)
class _History:
    tokens: list[int] = field(default_factory=list)
    sums: list[float] = field(default_factory=lambda: [0.0])  # before each token, and after all
    cost: Cost | None = None  # of the question that is under way


class Histories:
    """log Q(x₁..x_k) for every prefix of a lane's continuation.

    Changes state that changes what is asked of the model, and never the answer: what a text has
    in common with the one before it is kept.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, _History] = {}

    def unknown(self, lane: Hashable, continuation: Sequence[int]) -> int:
        """How many of the last tokens have yet to be scored."""
        history = self._known.setdefault(lane, _History())
        kept = common(history.tokens, list(continuation))
        if kept < len(history.tokens):  # another text than the one asked about
            history.cost = None
        del history.tokens[kept:], history.sums[kept + 1 :]
        return len(continuation) - kept

    def take(
        self,
        lane: Hashable,
        continuation: Sequence[int],
        logprobs: Tensor,
        cost: Cost = _NOTHING,
    ) -> Cost | None:
        """The log-probabilities [tokens, vocab] of the first tokens that were unknown.

        Returns what all of them have cost; None while some are unknown.
        """
        history = self._known[lane]
        known = len(history.tokens)
        new = list(continuation[known : known + len(logprobs)])
        at = torch.tensor(new, device=logprobs.device)[:, None]
        for one in logprobs[-len(new) :].gather(1, at)[:, 0].tolist():
            history.sums.append(history.sums[-1] + one)
        history.tokens += new
        before, at_hand = history.cost or (frozenset(), cost[1])
        so_far = before | cost[0], at_hand
        is_whole = len(history.tokens) == len(continuation)
        history.cost = None if is_whole else so_far
        return so_far if is_whole else None

    def logprobs(self, lane: Hashable, count: int) -> Tensor:
        """The log-likelihood before each of the last `count` places, [count, 1]."""
        return torch.tensor(self._known[lane].sums[-count:])[:, None]

    def release(self, lane: Hashable) -> None:
        """Forget a lane."""
        self._known.pop(lane, None)


def at_once(count: int, vocab: int) -> int:
    """How many positions of each of `count` texts one call asks about.

    A longer text takes several calls, so that memory does not grow with its length times the
    vocabulary.
    """
    return max(1, NUMBERS // (max(1, count) * vocab))
