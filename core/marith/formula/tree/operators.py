"""The operators on formulas other than + and *: unions, drafts, conditions and mixtures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from marith.errors import FormulaError, shown
from marith.formula.tree.factors import (
    Comparison,
    Factor,
    Varying,
    factor,
    is_number,
    plain,
)
from marith.formula.tree.nodes import MOST_TOKENS, Formula, as_members


@dataclass(frozen=True, slots=True, eq=False)
class Union(Formula):
    """The token-wise maximum of the members' log-distributions (paper, section 3)."""

    members: tuple[Formula, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Intersection(Formula):
    """The token-wise minimum of the members' log-distributions (paper, section 3)."""

    members: tuple[Formula, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Supersede(Formula):
    """The formula `of`, for which `draft` stands in until `of` is computed (paper, section 4).

    This is speculative decoding, written as a formula.
    """

    draft: Formula
    of: Formula


@dataclass(frozen=True, slots=True, eq=False)
class Unscaled(Formula):
    """The score of the formula `of` with the weight 1: it is not divided by the weight of `of`.

    Methods that add logits, such as DoLa, are written with it.
    """

    of: Formula


def union(*members: Formula) -> Formula:
    """Return the token-wise maximum: a token is likely if any member finds it likely.

    Paper, equation 7.
    """
    return Union(as_members("union", members))


def intersection(*members: Formula) -> Formula:
    """Return the token-wise minimum: a token is likely if all members find it likely.

    Paper, equation 8.
    """
    return Intersection(as_members("intersection", members))


def supersede(draft: Formula, formula: Formula) -> Formula:
    """Return `formula` with a draft. Drafts change the cost, and never the distribution."""
    return Supersede(*as_members("supersede", (draft, formula)))


def unscaled(formula: Formula) -> Formula:
    """Return a formula whose score is not divided by its total weight."""
    return Unscaled(*as_members("unscaled", (formula,), least=1))


@dataclass(frozen=True, slots=True, eq=False)
class Relu(Formula):
    """The score of a difference for tokens where it is above zero, else 0. It has no weight."""

    of: Formula


@dataclass(frozen=True, slots=True, eq=False)
class Mixture(Formula):
    """A mixture of probabilities (not of their logarithms): Σ wᵢ Pᵢ / Σ wᵢ."""

    weights: tuple[Factor, ...]
    members: tuple[Formula, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Where(Formula):
    """The distribution `then` if a condition on the context is true, else `otherwise`."""

    condition: Comparison
    then: Formula
    otherwise: Formula


@dataclass(frozen=True, slots=True, eq=False)
class SelfDebias(Formula):
    """P·max(ε, exp(−λ·max(0, P_b − P))): tokens that a biased prompt makes likelier become rare.

    Schick et al. (2021), equations 3 and 4. P_b is the largest of the probabilities under the
    biased prompts. `decay` is λ, and `floor` is ε.
    """

    of: Formula
    biased: tuple[Formula, ...]
    decay: float
    floor: float


@dataclass(frozen=True, slots=True, eq=False)
class Posterior(Formula):
    """log P(first | x₁..x_k), by Bayes' rule from the likelihood of the text under each member.

    A classifier made of language models: GeDi (Krause et al., 2021), equations 3 and 4, with even
    priors and with log-likelihoods divided by the length of the text. It has no weight.
    """

    members: tuple[Formula, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Agreed(Formula):
    """A mask that allows only the tokens in the top k of every member.

    k is the smallest number that leaves at least `count` tokens. This is the sample space of
    SafeDecoding (Xu et al., 2024), equation 2. It has neither score nor weight.
    """

    members: tuple[Formula, ...]
    count: int


def relu(difference: Formula) -> Formula:
    """Return max(0, score) of a difference such as `toxic - M`. It adds no weight to a sum."""
    return Relu(*as_members("relu", (difference,), least=1))


def mixture(*pairs: Any) -> Formula:
    """Return a mixture of probabilities, Σ wᵢ Pᵢ / Σ wᵢ, written `mixture(w1, F, w2, G, …)`.

    Negative weights can make the sum for a token zero or less. The token then has probability
    1e-30.
    """
    if len(pairs) < 4 or len(pairs) % 2:
        raise FormulaError(
            f"mixture takes at least two pairs of a weight and a formula, such as "
            f"mixture(0.5, M, 0.5, happy), not {len(pairs)} arguments"
        )
    weights = tuple(factor(weight, "a weight of a mixture") for weight in pairs[::2])
    return Mixture(weights, as_members("mixture", pairs[1::2]))


def where(condition: Comparison | Varying, then: Formula, otherwise: Formula) -> Formula:
    """Return `then` if the condition is true, else `otherwise`.

    A factor can take the place of a comparison: it is true if it is above zero.
    """
    if isinstance(condition, Varying):
        condition = condition > 0
    if not isinstance(condition, Comparison):
        raise FormulaError(
            f"where takes a condition on factors, such as entropy(M) > 2, not {shown(condition)}"
        )
    return Where(condition, *as_members("where", (then, otherwise)))


def self_debias(
    formula: Formula, *biased: Formula, decay: float = 50, floor: float = 0.01
) -> Formula:
    """Return `formula`, in which tokens that a biased prompt makes likelier become rare.

    The probability P of a token is multiplied by max(floor, exp(−decay·max(0, P_b − P))), where P_b
    is its largest probability under the biased prompts (Schick et al., 2021, equations 3 and 4).
    """
    first, *others = as_members("self_debias", (formula, *biased))
    if not is_number(decay) or not 0 <= decay <= 1e6:
        raise FormulaError(f"decay is a number from 0 to 1e6, not {shown(decay)}")
    if not is_number(floor) or not 0 <= floor <= 1:
        raise FormulaError(f"floor is a number from 0 to 1, not {shown(floor)}")
    return SelfDebias(first, tuple(others), float(decay), float(floor))


def posterior(*members: Formula) -> Formula:
    """Return the log-probability that the first of these prompted models wrote the text."""
    return Posterior(as_members("posterior", members))


def agreed(*members: Formula, count: int = 5) -> Formula:
    """Return a mask that allows only the tokens in the top k of every member.

    k is the smallest number that leaves at least `count` tokens. The mask is added to a formula, as
    in `M + agreed(M, expert)`.
    """
    count = plain(count)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_TOKENS:
        raise FormulaError(f"count is a whole number from 1 to {MOST_TOKENS}, not {shown(count)}")
    return Agreed(as_members("agreed", members), count)
