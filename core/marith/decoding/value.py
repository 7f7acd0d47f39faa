"""The value of a node: its score, its weight, and the tokens that it allows or lacks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

import torch
from torch import Tensor

from marith.tensor_rows import mask_of

# Where the weights of the terms that have a token add up to this or less, no distribution is
# defined, so the token is forbidden.
LEAST_WEIGHT = 1e-4


@dataclass(frozen=True, slots=True)
class Value:
    """A node's score [positions, vocab], finite everywhere; its weight; and the tokens it allows.

    The weight is a number, or [positions, 1 or vocab] if factors depend on the context. `allowed`
    is a mask next to the score, and not a very negative score, because a difference of two −inf
    would be NaN. None allows every token. `silent` is a mask of the tokens that all terms of the
    node lack: score and weight are 0 there. It is None if no term lacks a token.
    """

    score: Tensor
    weight: float | Tensor
    allowed: Tensor | None = None
    silent: Tensor | None = None

    @property
    def weighs(self) -> bool:
        """True unless the weight is 0 in every context."""
        return isinstance(self.weight, Tensor) or self.weight != 0.0

    def logprobs(self) -> Tensor:
        """Return log P = log_softmax(score / weight) on the allowed tokens, [positions, vocab]."""
        scaled, allowed = self.score / self.weight, self.allowed
        if self.silent is not None:
            # The terms that have a token may cancel out, even if those that lack it do not.
            allowed = both(allowed, ~self.silent & (self.weight > LEAST_WEIGHT))
        if allowed is not None:
            scaled = scaled.masked_fill(~allowed, -math.inf)
        return torch.log_softmax(scaled, dim=-1)

    @classmethod
    def of(cls, logprobs: Tensor, silent: Tensor | None = None) -> Value:
        """Return the value of a log-distribution [positions, vocab], with the weight 1.

        Impossible tokens are forbidden, unless the distribution is `silent` on them. On a CPU, no
        mask is made if all tokens are possible. On other devices a mask is always made, because the
        check would wait for the device.
        """
        if silent is not None:
            score = logprobs.masked_fill(silent | (logprobs == -math.inf), 0.0)
            allowed, weight = silent | (logprobs > -math.inf), (~silent).to(logprobs.dtype)
            return cls(score, weight, allowed, silent)
        if logprobs.is_cpu and bool(logprobs.amin() > -math.inf):
            return cls(logprobs, 1.0)
        allowed = logprobs > -math.inf
        return cls(logprobs.masked_fill(~allowed, 0.0), 1.0, allowed)


def both(left: Tensor | None, right: Tensor | None) -> Tensor | None:
    """Return the mask of the tokens that both masks allow; None allows every token."""
    if left is None or right is None:
        return right if left is None else left
    return left & right


def one_end(logprobs: Tensor, ends: tuple[int, ...]) -> Tensor:
    """Return rows [positions, vocab] in which the first end has the probability of all `ends`."""
    if len(ends) < 2:
        return logprobs
    width, device = logprobs.shape[-1], logprobs.device
    every = logprobs.masked_fill(~_mask(ends, width, device), -math.inf)
    joined = logprobs.masked_fill(_mask(ends, width, device), -math.inf)
    joined[:, ends[0]] = every.logsumexp(dim=-1)
    return joined


def silent_on(tokens: tuple[int, ...], rows: Tensor) -> Tensor | None:
    """Return a mask of some tokens, of the shape of `rows`; None without tokens."""
    return _mask(tokens, rows.shape[-1], rows.device).expand_as(rows) if tokens else None


def silent_in_all(members: Sequence[Tensor | None]) -> Tensor | None:
    """Return the mask of the tokens on which all members are silent.

    None is a member that is never silent. The result is None if no member is ever silent.
    """
    masks = [mask for mask in members if mask is not None]
    if not masks:
        return None
    return reduce(torch.logical_and, masks) & (len(masks) == len(members))


def silent_in_any(left: Tensor | None, right: Tensor | None) -> Tensor | None:
    """Return the mask of the tokens on which one of two members is silent."""
    if left is None or right is None:
        return right if left is None else left
    return left | right


# A formula is composed at every token, and its terms always lack the same tokens.
_mask = lru_cache(maxsize=64)(mask_of)
