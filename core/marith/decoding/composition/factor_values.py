"""The value of a factor at each position."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from marith.decoding.composition import divergences
from marith.decoding.composition.value import Meaning
from marith.formula.tree.factors import Arithmetic, Comparison, Extreme, Factor, Sigmoid, Varying
from marith.formula.tree.nodes import Formula
from marith.formula.tree.signals import (
    POSITION,
    Balance,
    Decay,
    Divergence,
    First,
    Indicator,
    Shape,
    Strength,
    judgement_of,
    likelihood_of,
)
from marith.formula.tree.terms import Term


class Factors:
    """Values of factors at the positions that terms have spoken of; each is computed once.

    `spoken` is that of `evaluate`; `meaning` is what a formula comes to there, and
    `difference` its score, infinite where only one side can say a token. `known` keeps the values.
    """

    def __init__(
        self,
        spoken: Mapping[Term, Tensor],
        meaning: Callable[[Formula], Meaning],
        difference: Callable[[Formula], Tensor],
        known: dict[Varying, Tensor] | None = None,
    ) -> None:
        self._spoken = spoken
        self._meaning = meaning
        self._difference = difference
        self._known = {} if known is None else known

    def of(self, factor: Factor) -> float | Tensor:
        """A number, or [positions, 1], or for an indicator [positions, vocab]."""
        if isinstance(factor, float):
            return factor
        if factor not in self._known:
            self._known[factor] = self._compute(factor)
        return self._known[factor]

    def holds(self, condition: Comparison) -> Tensor:
        """Whether a condition is met, [positions, 1]."""
        left, right = self._tensor(condition.left), self._tensor(condition.right)
        match condition.relation:
            case ">":
                return left > right
            case ">=":
                return left >= right
            case "<":
                return left < right
        return left <= right

    def _compute(self, factor: Varying) -> Tensor:
        match factor:
            case Arithmetic(operator, left, right):
                return _joined(operator, self._tensor(left), self._tensor(right))
            case Extreme(kind, of):
                choose = torch.maximum if kind == "largest" else torch.minimum
                found, *others = map(self._tensor, of)
                for other in others:
                    found = choose(found, other)
                return found
            case Sigmoid(of):
                return self._tensor(of).sigmoid()
            case Indicator(of):
                return (self._difference(of) > 0).float()  # no number, and so not above zero
            case Strength(judge):
                return self._spoken[judgement_of(judge)].exp()
            case First(count):
                return (self._spoken[POSITION] < count).float()
            case Decay(half_life):
                position = self._spoken[POSITION]
                return torch.exp2(-position.double() / half_life).to(position.dtype)
        return self._compare(factor)

    def _compare(self, factor: Varying) -> Tensor:
        match factor:
            case Divergence(first, second, None):
                return divergences.jensen_shannon(self._logprobs(first), self._logprobs(second))
            case Divergence(first, second, float() as order):
                return divergences.renyi(self._logprobs(first), self._logprobs(second), order)
            case Shape(kind, of):
                return divergences.shape(kind, self._logprobs(of))
            case Balance(first, second):
                lead = self._spoken[likelihood_of(first)] - self._spoken[likelihood_of(second)]
                return divergences.balance(self._logprobs(first), self._logprobs(second), lead)
        raise TypeError(f"no factor is a {type(factor).__name__}")

    def _logprobs(self, formula: Formula) -> Tensor:
        return self._meaning(formula).logprobs()

    def _tensor(self, factor: Factor) -> Tensor:
        value = self.of(factor)
        if isinstance(value, Tensor):
            return value
        return next(iter(self._spoken.values())).new_tensor([[value]])


def _joined(operator: str, left: Tensor, right: Tensor) -> Tensor:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    return left / right
