"""Constraints on composed rows: penalties, biases, the least length, and the application's own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from marith.errors import MarithError, RequestError, shown
from marith.request.request import RowFunction
from marith.request.sampling import Sampling


class Constraint(Protocol):
    """A change of composed log-probabilities that is the same for every formula."""

    def apply(self, rows: Tensor, text: Sequence[int], places: Sequence[int]) -> Tensor:
        """Return the constrained rows [positions, vocab], normalised; each follows text[:place]."""
        ...


@dataclass(frozen=True, slots=True)
class Penalties:
    """Penalises each row for the tokens before its place, with the penalties of a `Sampling`.

    `prompt` has the tokens of the prompt, as the bare model reads it.
    """

    sampling: Sampling
    prompt: Collection[int]

    def apply(self, rows: Tensor, text: Sequence[int], places: Sequence[int]) -> Tensor:
        """Return the penalised rows [positions, vocab], normalised; each follows text[:place]."""
        penalised_rows = [
            penalised(row[None], text[:place], self.sampling, self.prompt)
            for row, place in zip(rows, places, strict=True)
        ]
        return torch.cat(penalised_rows)


def penalised(
    logprobs: Tensor, tokens: Sequence[int], sampling: Sampling, prompt: Collection[int]
) -> Tensor:
    """Return rows [positions, vocab] that all follow the same tokens, penalised and normalised.

    First, the log-probabilities of tokens of the prompt and of earlier tokens are multiplied by the
    repetition penalty (Keskar et al., 2019). Then OpenAI's presence and frequency penalties are
    subtracted for earlier tokens, and biases are added.
    """
    counts = Counter(tokens)
    repeated = {*prompt, *counts} if sampling.repetition_penalty != 1.0 else ()
    if not (counts or repeated or sampling.logit_bias):
        return logprobs
    logprobs = logprobs.clone()
    if repeated:
        at = torch.tensor([*repeated], device=logprobs.device)
        # A log-probability is never positive, so a penalty above 1 always lowers it.
        logprobs[:, at] *= sampling.repetition_penalty
    if counts:
        seen = torch.tensor([*counts], device=logprobs.device)
        times = _like(logprobs, counts.values())
        logprobs[:, seen] -= sampling.presence_penalty + sampling.frequency_penalty * times
    if sampling.logit_bias:
        biased = dict(sampling.logit_bias)
        at = torch.tensor([*biased], device=logprobs.device)
        logprobs[:, at] += _like(logprobs, biased.values())
    return torch.log_softmax(logprobs, dim=-1)


def _like(logprobs: Tensor, numbers: Iterable[float]) -> Tensor:
    return torch.tensor([*numbers], dtype=logprobs.dtype, device=logprobs.device)


class LeastLength:
    """Forbids the tokens that end a text at the places before `least`."""

    def __init__(self, ends: Collection[int], least: int) -> None:
        self._ends, self._least = sorted(ends), least

    def apply(self, rows: Tensor, text: Sequence[int], places: Sequence[int]) -> Tensor:
        """Return the constrained rows [positions, vocab], normalised; each follows text[:place].

        A row that allows only end tokens is not changed, because a grammar may allow no other
        tokens.
        """
        early = [i for i, place in enumerate(places) if place < self._least]
        if not early or not self._ends:
            return rows
        going_on = rows[early].index_fill(
            1, torch.tensor(self._ends, device=rows.device), -math.inf
        )
        some = (going_on > -math.inf).any(dim=-1, keepdim=True)
        changed = rows.clone()
        changed[early] = torch.where(some, torch.log_softmax(going_on, dim=-1), rows[early])
        return changed


@dataclass(frozen=True, slots=True)
class CustomConstraint:
    """Applies a function of the application, and checks and normalises the rows that it returns."""

    function: RowFunction

    def apply(self, rows: Tensor, text: Sequence[int], places: Sequence[int]) -> Tensor:
        """Return the changed rows [positions, vocab], normalised; each follows text[:place].

        Raises RequestError if the function fails, or if it does not return rows of the same shape
        with at least one possible token.
        """
        name = getattr(self.function, "__name__", None) or type(self.function).__name__
        try:
            # The function gets copies, so it cannot change the state of the text.
            changed = self.function(rows.clone(), list(text), list(places))
        except MarithError:
            raise
        except Exception as error:
            problem = f"the constraint {name} failed with {type(error).__name__}: {error}"
            raise RequestError(problem) from error
        if not isinstance(changed, Tensor) or changed.shape != rows.shape:
            shape = list(changed.shape) if isinstance(changed, Tensor) else shown(changed)
            problem = f"the constraint {name} must return rows of the shape {list(rows.shape)}"
            raise RequestError(f"{problem}; it returned {shape}")
        logprobs = torch.log_softmax(changed.to(rows), dim=-1)
        # A row is NaN where a ban has left no token, and the text is rolled back there.
        dead = rows.isnan()
        if bool((logprobs.isnan() & ~dead).any()):
            problem = "a row in which no token is possible, or which has NaN"
            raise RequestError(f"the constraint {name} returned {problem}")
        return torch.where(dead, rows, logprobs)
