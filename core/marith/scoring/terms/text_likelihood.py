"""The likelihood of a lane's whole text, which is updated while the text grows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from marith.scoring.lane_text import common
from marith.scoring.passes.questions import RequestLane


@dataclass(slots=True)
class _History:
    tokens: list[int] = field(default_factory=list)
    # These are the log-likelihoods before each token, and after the last token.
    sums: list[float] = field(default_factory=lambda: [0.0])


class Histories:
    """log Q(x₁..x_k) for every prefix of each lane's continuation.

    Keeps state: the values of the lane's last text, as long as the lane exists. If the next text
    begins with the same tokens, the values of this common prefix are used again, so that the model
    scores fewer tokens. The state never changes an answer.
    """

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[RequestLane, _History] = WeakKeyDictionary()

    def unknown(self, lane: RequestLane, continuation: Sequence[int]) -> int:
        """Return the number of trailing tokens of the continuation that are not scored yet."""
        history = self._known.setdefault(lane, _History())
        kept = common(history.tokens, list(continuation))
        del history.tokens[kept:], history.sums[kept + 1 :]
        return len(continuation) - kept

    def take(self, lane: RequestLane, continuation: Sequence[int], logprobs: Tensor) -> None:
        """Add the log-probabilities [tokens, vocab] of the tokens that were unknown."""
        history = self._known[lane]
        new = list(continuation[len(history.tokens) :])
        at = torch.tensor(new, device=logprobs.device)[:, None]
        for one in logprobs[-len(new) :].gather(1, at)[:, 0].tolist():
            history.sums.append(history.sums[-1] + one)
        history.tokens += new

    def logprobs(self, lane: RequestLane, count: int) -> Tensor:
        """Return the log-likelihood before each of the last `count` places, [count, 1]."""
        return torch.tensor(self._known[lane].sums[-count:])[:, None]
