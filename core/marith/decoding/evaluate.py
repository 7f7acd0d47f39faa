"""Compute the distribution that a formula defines from the log-probabilities of its terms.

Theorem 1 of the paper: the distribution that minimises Σ fᵢ KL(P ‖ Qᵢ) is log P = log_softmax(Σ fᵢ
log Qᵢ / Σ fᵢ). The score of a node is its contribution to the numerator, and its weight is its
contribution to the denominator. The division happens once, at the end. `node_value` computes score
and weight for each kind of node, and `factor_value` computes the value of each kind of factor. A
node that is defined elsewhere names its function in `computed_by`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from functools import cache, lru_cache, reduce, singledispatch
from importlib import import_module
from typing import Any, TypeAlias

import torch
from torch import Tensor

from marith.decoding import cuts, divergences
from marith.decoding.value import Value as Value
from marith.decoding.value import both as both
from marith.decoding.value import one_end, silent_in_all, silent_in_any, silent_on
from marith.decoding.weighted_sums import weighted_sum
from marith.errors import FormulaError
from marith.formula.meaning.shares import shares_of
from marith.formula.tree.aligned import Aligned
from marith.formula.tree.factors import Arithmetic, Comparison, Extreme, Factor, Sigmoid, Varying
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
from marith.formula.tree.signals import (
    POSITION,
    Balance,
    ClassProb,
    Concentration,
    Decay,
    Divergence,
    First,
    Index,
    Indicator,
    Inside,
    judgement_of,
    likelihood_of,
    observed_by,
)
from marith.formula.tree.terms import Classifier, Term
from marith.tensor_rows import has_nan

# The least mass of an allowed token in a mixture, whose weights may be negative.
LEAST_MASS = 1e-30
_Joins: TypeAlias = "dict[str, Callable[[Tensor, Tensor], Tensor]]"
_RELATIONS: _Joins = {">": torch.gt, ">=": torch.ge, "<": torch.lt, "<=": torch.le}
_OPERATORS: _Joins = {"+": torch.add, "-": torch.sub, "*": torch.mul, "/": torch.div}
_EXTREMES: _Joins = {"maximum": torch.maximum, "minimum": torch.minimum}


def evaluate(formula: Formula, rows: Mapping[Term, Tensor]) -> Tensor:
    """Return the composed log-distribution, [positions, vocab], in the precision of the rows.

    `rows` holds log-probabilities [positions, vocab] for each term, log-ratios for each classifier
    (0 outside its candidates), and numbers [positions, 1] for each observation. Raises FormulaError
    if the terms allow no token in common.
    """
    logprobs = compose(formula, rows)
    if has_nan(logprobs):
        allowed = value_of(formula, rows).allowed
        if allowed is not None and not bool(allowed.any(dim=-1).all()):
            raise FormulaError(f"no token is allowed by every part of {to_text(formula)!r}")
    return logprobs


def compose(formula: Formula, rows: Mapping[Term, Tensor]) -> Tensor:
    """Return the composed log-distribution as `evaluate` does, without a check.

    A position at which no token is allowed is NaN, as is a position at which any of `rows` is NaN.
    """
    shares = shares_of(formula)
    if shares is not None and len(shares) == len(rows):
        # The row of a single term is normalised already.
        return rows[next(iter(shares))] if len(rows) == 1 else weighted_sum(rows, shares)
    logprobs = Evaluation(rows, repeated(formula)).logprobs(formula)
    # A condition or a factor may not select the row that is NaN.
    wrong = torch.stack([row[:, -1].isnan() for row in rows.values()]).any(dim=0)
    return logprobs.masked_fill_(wrong[:, None], math.nan)


def value_of(formula: Formula, rows: Mapping[Term, Tensor]) -> Value:
    """Return score, weight and allowed tokens of a formula, for the `rows` of `evaluate`."""
    return Evaluation(rows, repeated(formula)).value(formula)


def candidates_of(
    formula: Formula, rows: Mapping[Term, Tensor], count: int, coverage: float | None = None
) -> list[list[int]]:
    """Return the tokens that a classifier judges at each position: the likeliest under its guide.

    `formula` is the guide. At most `count` tokens are returned, likeliest first, and none that has
    probability 0 under the guide. With `coverage`, the likeliest tokens are returned until their
    probabilities add up to it, and no more.
    """
    logprobs = evaluate(formula, rows)
    best = logprobs.topk(min(count, logprobs.shape[-1]), dim=-1)
    tokens: list[list[int]] = best.indices.tolist()
    # Among tokens of probability 0, topk chooses by an order that differs between libraries.
    needed = best.values > -math.inf
    if coverage is not None and coverage < 1.0:
        mass = best.values.double().exp()
        needed &= mass.cumsum(dim=-1) - mass < coverage
    return [row[:kept] for row, kept in zip(tokens, needed.sum(dim=-1).tolist(), strict=True)]


# A formula is evaluated at every token, so its repeated parts are searched only once.
@lru_cache(maxsize=64)
def repeated(formula: Formula) -> frozenset[Formula]:
    """Return the formulas that occur more than once in a formula, factors included."""
    visited: set[Node] = set()
    several: set[Formula] = set()
    waiting: list[Node] = [formula]
    while waiting:
        node = waiting.pop()
        if node not in visited:
            visited.add(node)
            waiting += parts(node)
        elif isinstance(node, Formula):
            several.add(node)
    return frozenset(several)


class Evaluation:
    """The values of nodes for one set of rows, as `evaluate` takes them.

    A `repeated` formula is computed once, and so is every factor.
    """

    def __init__(
        self, rows: Mapping[Term, Tensor], repeated: Collection[Formula] = frozenset()
    ) -> None:
        self.rows = rows
        self._repeated = repeated
        self._values: dict[Formula, Value] = {}
        self._factors: dict[Varying, Tensor] = {}

    def value(self, formula: Formula) -> Value:
        """Return score, weight and allowed tokens of a formula."""
        if formula not in self._repeated:
            return node_value(formula, self)
        if formula not in self._values:
            self._values[formula] = node_value(formula, self)
        return self._values[formula]

    def logprobs(self, formula: Formula) -> Tensor:
        """Return the log-distribution of a formula, [positions, vocab]."""
        return self.spoken(formula)[0]

    def spoken(self, formula: Formula) -> tuple[Tensor, Tensor | None]:
        """Return the log-distribution of a formula, and the mask where it is silent, or None."""
        shares = shares_of(formula)
        if shares is not None:
            return weighted_sum(self.rows, shares), None
        value = self.value(formula)
        return value.logprobs(), value.silent

    def factor(self, factor: Factor) -> float | Tensor:
        """Return the value of a factor: a number, or a tensor [positions, 1].

        If the value differs between tokens, as an indicator does, the tensor is [positions, vocab].
        """
        if isinstance(factor, float):
            return factor
        if factor not in self._factors:
            self._factors[factor] = factor_value(factor, self)
        return self._factors[factor]

    def difference(self, formula: Formula) -> Tensor:
        """Return the score of a formula, with −∞ for each token that a member forbids.

        If that member is subtracted, the score of the token is ∞. The score of a token is 0 if a
        member is silent on it, because there is nothing to compare.
        """
        score, silent = self._difference(formula)
        return score if silent is None else score.masked_fill(silent, 0.0)

    def _difference(self, formula: Formula) -> tuple[Tensor, Tensor | None]:
        match formula:
            case Scaled(0.0, _):
                return torch.zeros(()), None
            case Scaled(factor, of):
                value, (score, silent) = self.factor(factor), self._difference(of)
                if isinstance(value, Tensor):
                    # A score of −∞ times 0 would be NaN.
                    score = torch.where(value == 0, 0.0, score)
                return value * score, silent
            case Sum(members):
                scores, masks = zip(*map(self._difference, members), strict=True)
                return reduce(torch.add, scores), reduce(silent_in_any, masks)
        inner = self.value(formula)
        if inner.allowed is None:
            return inner.score, inner.silent
        return inner.score.masked_fill(~inner.allowed, -math.inf), inner.silent


@singledispatch
def node_value(formula: Formula, at: Evaluation) -> Value:
    """Return the value of a node. Each kind registers a function; `at` evaluates its parts."""
    value: Value = computed(formula, at)
    return value


def computed(node: Node, at: Evaluation) -> Any:
    """Return the value of a node from the function that its class names in `computed_by`.

    Raises TypeError if the class names no function, and FormulaError if the function cannot be
    imported.
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


@node_value.register
def _evaluate_term(term: Term, at: Evaluation) -> Value:
    return Value.of(at.rows[term])


@node_value.register
def _evaluate_aligned(aligned: Aligned, at: Evaluation) -> Value:
    assert isinstance(aligned.of, Term), "only terms are aligned"
    logprobs = one_end(at.rows[aligned.of], aligned.ends)
    return Value.of(logprobs, silent_on(aligned.lacking, logprobs))


@node_value.register
def _evaluate_classifier(classifier: Classifier, at: Evaluation) -> Value:
    return Value(at.rows[classifier], 0.0)


@node_value.register
def _evaluate_scaled(scaled: Scaled, at: Evaluation) -> Value:
    if scaled.factor == 0.0:
        # A node that is multiplied by 0 is not computed, so it forbids no token.
        return Value(torch.zeros(()), 0.0)
    factor, of = at.factor(scaled.factor), at.value(scaled.of)
    allowed = of.allowed
    if allowed is not None and isinstance(factor, Tensor):
        # A node that is multiplied by zero forbids no token.
        allowed = allowed | (factor == 0)
    return Value(factor * of.score, factor * of.weight, allowed, of.silent)


@node_value.register
def _evaluate_sum(total: Sum, at: Evaluation) -> Value:
    # The members are computed one by one, so that each score is freed once it is added.
    members = map(at.value, total.members)
    first = next(members)
    score, weight, allowed = first.score, first.weight, first.allowed
    # A member without weight, such as a classifier, makes no token possible.
    masks = [first.silent] if first.weighs else []
    for other in members:
        score, weight = score + other.score, weight + other.weight
        allowed = both(allowed, other.allowed)
        masks += [other.silent] if other.weighs else []
    return Value(score, weight, allowed, silent_in_all(masks))


@node_value.register
def _evaluate_union(union: Union, at: Evaluation) -> Value:
    members, masks = zip(*map(at.spoken, union.members), strict=True)
    return Value.of(reduce(torch.maximum, members), silent_in_all(masks))


@node_value.register
def _evaluate_intersection(intersection: Intersection, at: Evaluation) -> Value:
    members, masks = zip(*map(at.spoken, intersection.members), strict=True)
    # A member that is silent on a token does not make the token less likely.
    louder = (
        logprobs if mask is None else logprobs.masked_fill(mask, math.inf)
        for logprobs, mask in zip(members, masks, strict=True)
    )
    return Value.of(reduce(torch.minimum, louder), silent_in_all(masks))


@node_value.register
def _evaluate_supersede(supersede: Supersede, at: Evaluation) -> Value:
    return at.value(supersede.of)


@node_value.register
def _evaluate_unscaled(unscaled: Unscaled, at: Evaluation) -> Value:
    of = at.value(unscaled.of)
    # With the weight 1, the score is not divided by the sum of its factors.
    weight = 1.0 if of.silent is None else (~of.silent).to(of.score.dtype)
    return Value(of.score, weight, of.allowed, of.silent)


@node_value.register
def _evaluate_cut(cut: Cut, at: Evaluation) -> Value:
    of = at.value(cut.of)
    kept = _CUTS[cut.kind](of.logprobs(), cut.threshold)
    if of.silent is not None:
        kept = kept | of.silent
    return Value(of.score, of.weight, both(of.allowed, kept), of.silent)


_CUTS: dict[str, Callable[[Tensor, float], Tensor]] = {
    "top_k": lambda logprobs, k: cuts.top_k(logprobs, int(k)),
    "top_p": cuts.top_p,
    "min_p": cuts.min_p,
}


@node_value.register
def _evaluate_tempered(tempered: Tempered, at: Evaluation) -> Value:
    of = at.value(tempered.of)
    # Only the score is divided, so a tempered formula keeps its weight in a sum.
    return Value(of.score / tempered.at, of.weight, of.allowed, of.silent)


@node_value.register
def _evaluate_relu(relu: Relu, at: Evaluation) -> Value:
    above = at.difference(relu.of).clamp(min=0.0)
    # Where neither side allows a token, the difference is NaN, and NaN is not below ∞.
    allowed = above < math.inf
    score = above.masked_fill(~allowed, 0.0)
    return Value(score, 0.0, None if allowed.is_cpu and bool(allowed.all()) else allowed)


@node_value.register
def _evaluate_where(where: Where, at: Evaluation) -> Value:
    met = holds(where.condition, at)
    (then, of_then), (otherwise, of_otherwise) = at.spoken(where.then), at.spoken(where.otherwise)
    silent = None
    if of_then is not None or of_otherwise is not None:
        never = torch.zeros_like(met)
        first, second = (never if mask is None else mask for mask in (of_then, of_otherwise))
        silent = torch.where(met, first, second)
    return Value.of(torch.where(met, then, otherwise), silent)


@node_value.register
def _evaluate_mixture(mixture: Mixture, at: Evaluation) -> Value:
    """Return Σ wᵢ Pᵢ, computed in float64 and normalised.

    A token that any member allows keeps a mass above zero.
    """
    weights = [at.factor(weight) for weight in mixture.weights]
    members, masks = zip(*map(at.spoken, mixture.members), strict=True)
    pairs = zip(weights, members, strict=True)
    masses = reduce(torch.add, (weight * member.double().exp() for weight, member in pairs))
    allowed = torch.stack([member > -math.inf for member in members]).any(dim=0)
    masses = torch.where(allowed, masses.clamp(min=LEAST_MASS), 0.0)
    logprobs = torch.log_softmax(masses.log(), dim=-1).to(members[0].dtype)
    return Value.of(logprobs, silent_in_all(masks))


@node_value.register
def _evaluate_self_debias(debiased: SelfDebias, at: Evaluation) -> Value:
    """Return log P + max(log ε, −λ·max(0, P_b − P)), normalised."""
    logprobs, silent = at.spoken(debiased.of)
    biased = reduce(torch.maximum, map(at.logprobs, debiased.biased))
    penalty = -debiased.decay * (biased.exp() - logprobs.exp()).clamp(min=0.0)
    if debiased.floor > 0.0:
        penalty = penalty.clamp(min=math.log(debiased.floor))
    return Value.of(torch.log_softmax(logprobs + penalty, dim=-1), silent)


@node_value.register
def _evaluate_posterior(posterior: Posterior, at: Evaluation) -> Value:
    """Return log P(first | text). Each log-likelihood is divided by the text's length."""
    length = at.rows[POSITION] + 1
    members, masks = zip(*map(at.spoken, posterior.members), strict=True)
    pairs = zip(posterior.members, members, strict=True)
    scores = [(at.rows[likelihood_of(m)] + logprobs) / length for m, logprobs in pairs]
    allowed = scores[0] > -math.inf
    score = scores[0] - torch.logsumexp(torch.stack(scores), dim=0)
    if (silent := reduce(silent_in_any, masks)) is not None:
        # A text with a token that a member lacks says nothing about the members.
        score, allowed = score.masked_fill(silent, 0.0), allowed | silent
    return Value(score.masked_fill(~allowed, 0.0), 0.0, allowed)


@node_value.register
def _evaluate_agreed(agreed: Agreed, at: Evaluation) -> Value:
    kept = cuts.common([at.logprobs(member) for member in agreed.members], agreed.count)
    return Value(torch.zeros(()), 0.0, kept)


@singledispatch
def factor_value(factor: Varying, at: Evaluation) -> Tensor:
    """Return the value of a factor. Each kind registers a function; `at` evaluates its parts.

    The value is [positions, 1], or [positions, vocab] if it differs between tokens.
    """
    value: Tensor = computed(factor, at)
    return value


@factor_value.register
def _compute_arithmetic(factor: Arithmetic, at: Evaluation) -> Tensor:
    return _OPERATORS[factor.operator](_tensor(factor.left, at), _tensor(factor.right, at))


@factor_value.register
def _compute_extreme(factor: Extreme, at: Evaluation) -> Tensor:
    return reduce(_EXTREMES[factor.kind], [_tensor(part, at) for part in factor.of])


@factor_value.register
def _compute_sigmoid(factor: Sigmoid, at: Evaluation) -> Tensor:
    return _tensor(factor.of, at).sigmoid()


@factor_value.register
def _compute_indicator(factor: Indicator, at: Evaluation) -> Tensor:
    # Where neither side allows a token, the difference is NaN, and NaN is not above zero.
    return (at.difference(factor.of) > 0).float()


@factor_value.register
def _compute_class_prob(factor: ClassProb, at: Evaluation) -> Tensor:
    return at.rows[judgement_of(factor.judge)].exp()


@factor_value.register
def _compute_first(factor: First, at: Evaluation) -> Tensor:
    return (at.rows[POSITION] < factor.count).float()


@factor_value.register
def _compute_decay(factor: Decay, at: Evaluation) -> Tensor:
    position = at.rows[POSITION]
    return torch.exp2(-position.double() / factor.half_life).to(position.dtype)


@factor_value.register
def _compute_index(_factor: Index, at: Evaluation) -> Tensor:
    return at.rows[POSITION]


@factor_value.register
def _compute_inside(inside: Inside, at: Evaluation) -> Tensor:
    return at.rows[observed_by(inside)]


@factor_value.register
def _compute_divergence(factor: Divergence, at: Evaluation) -> Tensor:
    first, second = at.logprobs(factor.first), at.logprobs(factor.second)
    if factor.order is None:
        return divergences.jensen_shannon(first, second)
    return divergences.renyi(first, second, factor.order)


@factor_value.register
def _compute_concentration(factor: Concentration, at: Evaluation) -> Tensor:
    return divergences.concentration(factor.kind, at.logprobs(factor.of))


@factor_value.register
def _compute_balance(factor: Balance, at: Evaluation) -> Tensor:
    first, second = factor.first, factor.second
    lead = at.rows[likelihood_of(first)] - at.rows[likelihood_of(second)]
    return divergences.balance(at.logprobs(first), at.logprobs(second), lead)


def holds(condition: Comparison, at: Evaluation) -> Tensor:
    """Return a mask [positions, 1] of the positions at which a condition is met."""
    left, right = _tensor(condition.left, at), _tensor(condition.right, at)
    return _RELATIONS[condition.relation](left, right)


def _tensor(factor: Factor, at: Evaluation) -> Tensor:
    value = at.factor(factor)
    if isinstance(value, Tensor):
        return value
    return next(iter(at.rows.values())).new_tensor([[value]])
