"""Computes factors: `factor_value` gives the value of each kind at each position."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce, singledispatch
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from marith.decoding.composition import divergences
from marith.errors import FormulaError
from marith.formula.tree.factors import (
    Arithmetic,
    Comparison,
    Extreme,
    Factor,
    Sigmoid,
    Varying,
)
from marith.formula.tree.node import Node
from marith.formula.tree.signals import (
    POSITION,
    Balance,
    Decay,
    Divergence,
    First,
    Index,
    Indicator,
    Shape,
    Strength,
    judgement_of,
    likelihood_of,
)

if TYPE_CHECKING:
    from marith.decoding.composition.evaluate import Evaluation  # which computes factors

_Joins: TypeAlias = "dict[str, Callable[[Tensor, Tensor], Tensor]]"
_RELATIONS: _Joins = {">": torch.gt, ">=": torch.ge, "<": torch.lt, "<=": torch.le}
_OPERATORS: _Joins = {"+": torch.add, "-": torch.sub, "*": torch.mul, "/": torch.div}
_EXTREMES: _Joins = {"largest": torch.maximum, "smallest": torch.minimum}


@singledispatch
def factor_value(factor: Varying, at: Evaluation) -> Tensor:
    """The value of one kind of factor; `at` computes the values of its parts.

    [positions, 1], or [positions, vocab] where it differs from token to token.
    """
    value: Tensor = computed(factor, at)
    return value


def computed(node: Node, at: Evaluation) -> Any:
    """The value of a node by the function that its class names in `computed_by`.

    Raises TypeError where there is none, and FormulaError for one that cannot be imported.
    """
    if not node.computed_by:
        raise TypeError(f"no value is registered for a {type(node).__name__}")
    return _imported(type(node).__name__, node.computed_by)(node, at)


@cache
def _imported(kind: str, path: str) -> Callable[[Any, Evaluation], Any]:
    module, _, name = path.partition(":")
    try:
        function: Callable[[Any, Evaluation], Any] = getattr(import_module(module), name)
    except Exception as error:
        problem = f"{kind} is computed by {path!r}, which cannot be imported"
        raise FormulaError(f"{problem}: {error}") from error
    return function


def holds(condition: Comparison, at: Evaluation) -> Tensor:
    """Whether a condition is met, [positions, 1]."""
    left, right = _tensor(condition.left, at), _tensor(condition.right, at)
    return _RELATIONS[condition.relation](left, right)


@factor_value.register(Arithmetic)
def _(factor: Arithmetic, at: Evaluation) -> Tensor:
    return _OPERATORS[factor.operator](_tensor(factor.left, at), _tensor(factor.right, at))


@factor_value.register(Extreme)
def _(factor: Extreme, at: Evaluation) -> Tensor:
    return reduce(_EXTREMES[factor.kind], [_tensor(part, at) for part in factor.of])


@factor_value.register(Sigmoid)
def _(factor: Sigmoid, at: Evaluation) -> Tensor:
    return _tensor(factor.of, at).sigmoid()


@factor_value.register(Indicator)
def _(factor: Indicator, at: Evaluation) -> Tensor:
    return (at.difference(factor.of) > 0).float()  # NaN is not above zero


@factor_value.register(Strength)
def _(factor: Strength, at: Evaluation) -> Tensor:
    return at.rows[judgement_of(factor.judge)].exp()


@factor_value.register(First)
def _(factor: First, at: Evaluation) -> Tensor:
    return (at.rows[POSITION] < factor.count).float()


@factor_value.register(Decay)
def _(factor: Decay, at: Evaluation) -> Tensor:
    position = at.rows[POSITION]
    return torch.exp2(-position.double() / factor.half_life).to(position.dtype)


@factor_value.register(Index)
def _(_factor: Index, at: Evaluation) -> Tensor:
    return at.rows[POSITION]


@factor_value.register(Divergence)
def _(factor: Divergence, at: Evaluation) -> Tensor:
    first, second = at.logprobs(factor.first), at.logprobs(factor.second)
    if factor.order is None:
        return divergences.jensen_shannon(first, second)
    return divergences.renyi(first, second, factor.order)


@factor_value.register(Shape)
def _(factor: Shape, at: Evaluation) -> Tensor:
    return divergences.shape(factor.kind, at.logprobs(factor.of))


@factor_value.register(Balance)
def _(factor: Balance, at: Evaluation) -> Tensor:
    first, second = factor.first, factor.second
    lead = at.rows[likelihood_of(first)] - at.rows[likelihood_of(second)]
    return divergences.balance(at.logprobs(first), at.logprobs(second), lead)


def _tensor(factor: Factor, at: Evaluation) -> Tensor:
    value = at.factor(factor)
    if isinstance(value, Tensor):
        return value
    return next(iter(at.rows.values())).new_tensor([[value]])
