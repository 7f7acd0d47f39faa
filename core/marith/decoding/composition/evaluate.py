"""The meaning of a formula: a score and a weight for every token, and what is allowed.

Theorem 1 of the paper: the distribution that minimises Σ fᵢ KL(P ‖ Qᵢ) is
log P = log_softmax(Σ fᵢ log Qᵢ / Σ fᵢ). A node's score is its part of the numerator, its weight
its part of the denominator. One division, at the end.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from functools import lru_cache, reduce

import torch
from torch import Tensor

from marith.decoding import cuts
from marith.decoding.composition.factor_values import Factors
from marith.decoding.composition.value import Meaning, both
from marith.errors import FormulaError
from marith.formula.tree.factors import Varying
from marith.formula.tree.node import Node, parts
from marith.formula.tree.nodes import Cut, Formula, Scaled, Sum, Tempered
from marith.formula.tree.operators import (
    Agreed,
    Intersection,
    Mixture,
    Posterior,
    Relu,
    SelfDebias,
    Supersede,
    Union,
    Unscaled,
    Where,
)
from marith.formula.tree.printing import to_text
from marith.formula.tree.signals import POSITION, likelihood_of
from marith.formula.tree.terms import Classifier, Term

LEAST_MASS = 1e-30  # of a mixture whose weights leave a token none


def evaluate(formula: Formula, spoken: Mapping[Term, Tensor]) -> Tensor:
    """The composed log-distribution, [positions, vocab], as precise as what terms have spoken.

    `spoken` holds for each term its log-probabilities [positions, vocab], for each classifier its
    log-ratios, 0 outside its candidates, and for each observation its numbers [positions, 1].
    Raises FormulaError where the terms allow no token in common.
    """
    meaning = meaning_of(formula, spoken)
    if meaning.allowed is not None and not bool(meaning.allowed.any(dim=-1).all()):
        raise FormulaError(f"no token is allowed by every part of {to_text(formula)!r}")
    return meaning.logprobs()


def meaning_of(formula: Formula, spoken: Mapping[Term, Tensor]) -> Meaning:
    """Score, weight and allowed tokens of one node."""
    return Evaluation(spoken, repeated(formula)).meaning(formula)


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


@lru_cache(maxsize=64)  # a formula is evaluated at every token
def repeated(formula: Formula) -> frozenset[Formula]:
    """The formulas that occur more than once in a formula, factors included."""
    met: set[Node] = set()
    found: set[Formula] = set()
    waiting: list[Node] = [formula]
    while waiting:
        node = waiting.pop()
        if node not in met:
            met.add(node)
            waiting += parts(node)
        elif isinstance(node, Formula):
            found.add(node)
    return frozenset(found)


class Evaluation:
    """One look at what terms have spoken; what is `repeated` is computed once, and kept."""

    def __init__(
        self, spoken: Mapping[Term, Tensor], repeated: Collection[Formula] = frozenset()
    ) -> None:
        self.spoken = spoken
        self._repeated = repeated
        self._meanings: dict[Formula, Meaning] = {}
        self._values: dict[Varying, Tensor] = {}

    @property
    def factors(self) -> Factors:
        """Factors, whose values are kept. They are not: a circle would keep all tensors."""
        return Factors(self.spoken, self.meaning, self._difference, self._values)

    def meaning(self, formula: Formula) -> Meaning:
        """Score, weight and allowed tokens of one node."""
        if formula not in self._repeated:
            return self._compute(formula)
        if formula not in self._meanings:
            self._meanings[formula] = self._compute(formula)
        return self._meanings[formula]

    def _compute(self, formula: Formula) -> Meaning:
        match formula:
            case Classifier():
                return Meaning(self.spoken[formula], 0.0)
            case Term():
                return Meaning.of(self.spoken[formula])
            case Scaled(0.0, _):
                return Meaning(torch.zeros(()), 0.0)  # 0 · (−∞) never reaches a sum
            case Scaled(factor, of):
                return _scaled(self.factors.of(factor), self.meaning(of))
            case Sum(members):
                return reduce(_added, (self.meaning(member) for member in members))
            case Union(members):
                return Meaning.of(reduce(torch.maximum, self._distributions(members)))
            case Intersection(members):
                return Meaning.of(reduce(torch.minimum, self._distributions(members)))
            case Supersede(_, of):
                return self.meaning(of)
            case Unscaled(of):
                inner = self.meaning(of)
                return Meaning(inner.score, 1.0, inner.allowed)
            case Cut(of, kind, bound):
                return _cut(self.meaning(of), kind, bound)
            case Tempered(of, at):
                inner = self.meaning(of)
                return Meaning(inner.score / at, inner.weight, inner.allowed)
        return self._compound(formula)

    def _compound(self, formula: Formula) -> Meaning:
        match formula:
            case Relu(of):
                return _above_zero(self._difference(of))
            case Where(condition, then, otherwise):
                chosen, other = self._distributions((then, otherwise))
                return Meaning.of(torch.where(self.factors.holds(condition), chosen, other))
            case Mixture():
                return Meaning.of(self._mixed(formula))
            case SelfDebias(of, biased, decay, floor):
                own, *others = self._distributions((of, *biased))
                return Meaning.of(_debiased(own, reduce(torch.maximum, others), decay, floor))
            case Posterior(members):
                return self._posterior(members)
            case Agreed(members, count):
                kept = cuts.common(self._distributions(members), count)
                return Meaning(torch.zeros(()), 0.0, kept)
        raise TypeError(f"a formula has no meaning for {type(formula).__name__}")

    def _distributions(self, members: tuple[Formula, ...]) -> list[Tensor]:
        return [self.meaning(member).logprobs() for member in members]

    def _difference(self, of: Formula) -> Tensor:
        """A score that is −∞ where a part is impossible, and ∞ where that part is taken away."""
        match of:
            case Scaled(0.0, _):
                return torch.zeros(())
            case Scaled(factor, inner):
                value, score = self.factors.of(factor), self._difference(inner)
                if isinstance(value, Tensor):
                    score = torch.where(value == 0, 0.0, score)
                return value * score
            case Sum(members):
                return reduce(torch.add, map(self._difference, members))
        meaning = self.meaning(of)
        if meaning.allowed is None:
            return meaning.score
        return meaning.score.masked_fill(~meaning.allowed, -math.inf)

    def _mixed(self, mixture: Mixture) -> Tensor:
        """Σ wᵢ Pᵢ in float64, normalised; what members can say keeps a mass above zero."""
        shares = [self.factors.of(weight) for weight in mixture.weights]
        members = self._distributions(mixture.members)
        masses = sum(
            share * member.double().exp() for share, member in zip(shares, members, strict=True)
        )
        said = torch.stack([member > -math.inf for member in members]).any(dim=0)
        assert isinstance(masses, Tensor)
        masses = torch.where(said, masses.clamp(min=LEAST_MASS), 0.0)
        return torch.log_softmax(masses.log(), dim=-1).to(members[0].dtype)

    def _posterior(self, members: tuple[Formula, ...]) -> Meaning:
        """Log P(first | text), each member's log-likelihood divided by the text's length."""
        distributions = self._distributions(members)
        length = self.spoken[POSITION] + 1
        told = [
            (self.spoken[likelihood_of(member)] + logprobs) / length
            for member, logprobs in zip(members, distributions, strict=True)
        ]
        allowed = told[0] > -math.inf
        score = told[0] - torch.logsumexp(torch.stack(told), dim=0)
        return Meaning(score.masked_fill(~allowed, 0.0), 0.0, allowed)


def _scaled(factor: float | Tensor, of: Meaning) -> Meaning:
    allowed = of.allowed
    if allowed is not None and isinstance(factor, Tensor):
        allowed = allowed | (factor == 0)  # what has no say forbids nothing
    return Meaning(factor * of.score, factor * of.weight, allowed)


def _above_zero(difference: Tensor) -> Meaning:
    """max(0, x), of no weight; what is infinitely far above zero is forbidden."""
    above = difference.clamp(min=0.0)
    allowed = above < math.inf  # what neither side can say is no number, and not allowed either
    return Meaning(above.masked_fill(~allowed, 0.0), 0.0, None if bool(allowed.all()) else allowed)


def _added(left: Meaning, right: Meaning) -> Meaning:
    return Meaning(
        left.score + right.score, left.weight + right.weight, both(left.allowed, right.allowed)
    )


def _debiased(own: Tensor, biased: Tensor, decay: float, floor: float) -> Tensor:
    """Log P + max(log ε, −λ·max(0, P_b − P)), normalised."""
    rarer = -decay * (biased.exp() - own.exp()).clamp(min=0.0)
    if floor > 0.0:
        rarer = rarer.clamp(min=math.log(floor))
    return torch.log_softmax(own + rarer, dim=-1)


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
    return Meaning(meaning.score, meaning.weight, both(meaning.allowed, kept))
