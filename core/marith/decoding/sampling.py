"""From a distribution to one token: warping, and the draw."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from marith.decoding import cuts
from marith.decoding.constraints.repetition import penalised
from marith.errors import FormulaError
from marith.request.sampling import Sampling

COLDEST = 1e-30  # below it float32 divides by zero; from it down only the likeliest is drawn


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
    depends on the seed and not on how many tokens the vocabulary has or which kernel summed them.
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
