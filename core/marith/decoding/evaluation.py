"""The meaning of a formula: a score and a weight for every token, and what is allowed.

Theorem 1 of the paper: the distribution that minimises Σ fᵢ KL(P ‖ Qᵢ) is
log P = log_softmax(Σ fᵢ log Qᵢ / Σ fᵢ). A node's score is its part of the numerator, its weight
its part of the denominator. One division, at the end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from marith.decoding import cuts
from marith.errors import FormulaError
from marith.formula.nodes import (
    Cut,
    Formula,
    Intersection,
    Scaled,
    Sum,
    Supersede,
    Union,
    Unscaled,
)
from marith.formula.printing import to_text
from marith.formula.terms import Classifier, Term


@dataclass(frozen=True, slots=True)
class Meaning:
    """A node's score [positions, vocab], finite everywhere; its weight; the tokens it allows.

    `allowed` is a mask beside the score, never a very negative score: −inf in a difference
    would make NaN. None allows every token.
    """

    score: Tensor
    weight: float
    allowed: Tensor | None = None

    def logprobs(self) -> Tensor:
        """Log P = log_softmax(score / weight) on the allowed tokens, [positions, vocab]."""
        scaled = self.score / self.weight
        if self.allowed is not None:
            scaled = scaled.masked_fill(~self.allowed, -math.inf)
        return torch.log_softmax(scaled, dim=-1)


def evaluate(formula: Formula, spoken: Mapping[Term, Tensor]) -> Tensor:
    """The composed log-distribution, [positions, vocab] in float32.

    `spoken` holds for each term its log-probabilities [positions, vocab], and for each
    classifier its log-ratios, 0 outside its candidates. Raises FormulaError where the terms
    allow no token in common.
    """
    meaning = meaning_of(formula, spoken)
    if meaning.allowed is not None and not bool(meaning.allowed.any(dim=-1).all()):
        raise FormulaError(f"no token is allowed by every part of {to_text(formula)!r}")
    return meaning.logprobs()


def meaning_of(formula: Formula, spoken: Mapping[Term, Tensor]) -> Meaning:
    """Score, weight and allowed tokens of one node."""
    match formula:
        case Classifier():
            return Meaning(spoken[formula], 0.0)
        case Term():
            return _from_logprobs(spoken[formula])
        case Scaled(0.0, _):
            return Meaning(torch.zeros(()), 0.0)  # 0 · (−∞) never reaches a sum
        case Scaled(factor, of):
            inner = meaning_of(of, spoken)
            return Meaning(factor * inner.score, factor * inner.weight, inner.allowed)
        case Sum(members):
            return reduce(_added, (meaning_of(member, spoken) for member in members))
        case Union(members):
            return _from_logprobs(reduce(torch.maximum, _distributions(members, spoken)))
        case Intersection(members):
            return _from_logprobs(reduce(torch.minimum, _distributions(members, spoken)))
        case Supersede(_, of):
            return meaning_of(of, spoken)
        case Unscaled(of):
            inner = meaning_of(of, spoken)
            return Meaning(inner.score, 1.0, inner.allowed)
        case Cut(of, kind, bound):
            return _cut(meaning_of(of, spoken), kind, bound)
    raise TypeError(f"a formula has no meaning for {type(formula).__name__}")


def likeliest(
    formula: Formula, spoken: Mapping[Term, Tensor], count: int, coverage: float | None = None
) -> list[list[int]]:
    """The tokens that a classifier judges at each position: the guide's likeliest, best first.

    At most `count`; with `coverage`, only the fewest of them whose probabilities reach it.
    """
    logprobs = evaluate(formula, spoken)
    best = logprobs.topk(min(count, logprobs.shape[-1]), dim=-1)
    tokens: list[list[int]] = best.indices.tolist()
    if coverage is None:
        return tokens
    mass = best.values.double().exp()
    needed = mass > 0
    if coverage < 1.0:
        needed &= mass.cumsum(dim=-1) - mass < coverage
    return [row[:kept] for row, kept in zip(tokens, needed.sum(dim=-1).tolist(), strict=True)]


def _distributions(members: tuple[Formula, ...], spoken: Mapping[Term, Tensor]) -> list[Tensor]:
    return [meaning_of(member, spoken).logprobs() for member in members]


def _from_logprobs(logprobs: Tensor) -> Meaning:
    allowed = logprobs > -math.inf
    if bool(allowed.all()):
        return Meaning(logprobs, 1.0)
    return Meaning(logprobs.masked_fill(~allowed, 0.0), 1.0, allowed)


def _added(left: Meaning, right: Meaning) -> Meaning:
    return Meaning(
        left.score + right.score, left.weight + right.weight, _both(left.allowed, right.allowed)
    )


def _both(left: Tensor | None, right: Tensor | None) -> Tensor | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right


def _cut(meaning: Meaning, kind: str, bound: float) -> Meaning:
    logprobs = meaning.logprobs()
    match kind:
        case "top_k":
            kept = cuts.top_k(logprobs, int(bound))
        case "top_p":
            kept = cuts.top_p(logprobs, bound)
        case "plausible":
            kept = cuts.plausible(logprobs, bound)
        case _:
            raise ValueError(f"no cut is called {kind!r}")
    return Meaning(meaning.score, meaning.weight, _both(meaning.allowed, kept))
