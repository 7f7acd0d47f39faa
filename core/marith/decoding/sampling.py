"""Warp distributions, and draw tokens from them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from marith.decoding import cuts
from marith.errors import FormulaError
from marith.request.sampling import Sampling
from marith.tensor_rows import has_nan

DRAWN_FROM_NAN = -1  # in place of a token
# At this temperature only the likeliest token is drawn, and float32 cannot divide by less.
COLDEST = 1e-30


def warp(logprobs: Tensor, sampling: Sampling) -> Tensor:
    """Return the distribution from which tokens are drawn, [positions, vocab], normalised.

    Penalties are applied earlier, by `row_constraints.Penalties`.
    """
    if sampling.temperature == 0.0:
        return cuts.keep(logprobs, cuts.top_k(logprobs, 1))
    if sampling.temperature != 1.0:
        # The likeliest token becomes 0, which stays finite for every temperature.
        below = logprobs - logprobs.amax(dim=-1, keepdim=True)
        logprobs = torch.log_softmax(below / max(sampling.temperature, COLDEST), dim=-1)
    if sampling.top_k is not None:
        logprobs = cuts.keep(logprobs, cuts.top_k(logprobs, sampling.top_k))
    if sampling.top_p < 1.0:
        logprobs = cuts.keep(logprobs, cuts.top_p(logprobs, sampling.top_p))
    if sampling.min_p > 0.0:
        logprobs = cuts.keep(logprobs, cuts.min_p(logprobs, sampling.min_p))
    return logprobs


def drawn(masses: Tensor, chances: Tensor) -> Tensor:
    """Return a token for each row of `masses` [rows, vocab], drawn with `chances` [rows] in [0, 1).

    The masses may have any sum. The cumulative distribution is inverted in float64. So a text
    depends on the seed, and not on the size of the vocabulary or on the kernel that adds the
    masses. The token is `DRAWN_FROM_NAN` if masses are NaN: see `require_drawn`.
    """
    cumulative = masses.to(torch.float64, copy=True).cumsum_(dim=-1)
    total = cumulative[:, -1:].contiguous()
    thresholds = chances.to(total)[:, None] * total
    tokens = torch.searchsorted(cumulative, thresholds, right=True)
    # A threshold may round up to the total, after which no token is left.
    last = torch.searchsorted(cumulative, total)
    return torch.where(total.isnan(), DRAWN_FROM_NAN, torch.minimum(tokens, last))[:, 0]


def require_drawn(tokens: Sequence[float]) -> None:
    """Raise FormulaError if a token was drawn from NaN."""
    _refuse_nan(DRAWN_FROM_NAN in tokens)


def require_numbers(logprobs: Tensor) -> None:
    """Raise FormulaError if a composed row [positions, vocab] is NaN."""
    _refuse_nan(has_nan(logprobs))


def _refuse_nan(found: bool) -> None:
    if found:
        raise FormulaError(
            "the composed distribution is not a number (NaN): a factor of the formula is too large "
            "for float32, or a function of your own returned NaN; write smaller factors"
        )
