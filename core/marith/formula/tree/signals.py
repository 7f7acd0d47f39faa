"""Factors that depend on distributions, on the text so far, or on its length."""

from __future__ import annotations

from dataclasses import dataclass

from marith.errors import FormulaError, shown
from marith.formula.tree.aligned import Aligned
from marith.formula.tree.factors import LARGEST_FACTOR, Varying, is_number, plain
from marith.formula.tree.nodes import Formula, Name, as_members
from marith.formula.tree.terms import (
    Calling,
    Classifier,
    Judgement,
    Likelihood,
    Position,
    Reasoning,
    Term,
)

POSITION, REASONING, CALLING = Position(), Reasoning(), Calling()


@dataclass(frozen=True, slots=True, eq=False)
class Divergence(Varying):
    """The divergence of two distributions: Jensen–Shannon, or Rényi if there is an `order`."""

    first: Formula
    second: Formula
    order: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Concentration(Varying):
    """A measure of how concentrated a distribution is.

    `kind` is "entropy", "max_prob" (the largest probability), or "margin" (the largest probability
    minus the second).
    """

    kind: str
    of: Formula


@dataclass(frozen=True, slots=True, eq=False)
class Indicator(Varying):
    """A number for each token: 1 if a difference is above zero, else 0 (paper, section 3)."""

    tokenwise = True

    of: Formula


@dataclass(frozen=True, slots=True, eq=False)
class ClassProb(Varying):
    """The probability that a classifier gives to its label for the text so far."""

    judge: Formula


@dataclass(frozen=True, slots=True, eq=False)
class First(Varying):
    """The number 1 for the first `count` tokens, then 0."""

    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Decay(Varying):
    """A number that is 1 for the first token and halves every `half_life` tokens."""

    half_life: float


@dataclass(frozen=True, slots=True, eq=False)
class Index(Varying):
    """The number of tokens of the answer before this token: 0 for the first token."""


@dataclass(frozen=True, slots=True, eq=False)
class Inside(Varying):
    """The number 1 if this token is inside a part of the text, else 0.

    `part` is "reasoning" or "calling".
    """

    part: str


@dataclass(frozen=True, slots=True, eq=False)
class Balance(Varying):
    """The share b of F for which b·F + (1−b)·G does not recite what F or G has memorised.

    CP-Fuse (Abad et al., 2024): the P that minimises maxᵢ KL(P ‖ Qᵢ) − log Qᵢ(x₁..x_k) is
    log-linear in the two distributions, with shares that add up to one.
    """

    first: Formula
    second: Formula


def jsd(first: Formula, second: Formula) -> Varying:
    """Return the Jensen–Shannon divergence of two distributions, in bits: from 0 to 1."""
    left, right = as_members("jsd", (first, second))
    return Divergence(left, right)


def renyi(first: Formula, second: Formula, order: float = 0.5) -> Varying:
    """Return the Rényi divergence of two distributions, in nats.

    `order` is between 0 and 1. At an order of one half the divergence is symmetric.
    """
    if not is_number(order) or not 0 < order < 1:
        raise FormulaError(f"order is a number between 0 and 1, not {shown(order)}")
    left, right = as_members("renyi", (first, second))
    return Divergence(left, right, float(order))


def entropy(formula: Formula) -> Varying:
    """Return the Shannon entropy of a distribution, in nats."""
    return Concentration("entropy", *as_members("entropy", (formula,), least=1))


def max_prob(formula: Formula) -> Varying:
    """Return the probability of a distribution's likeliest token."""
    return Concentration("max_prob", *as_members("max_prob", (formula,), least=1))


def margin(formula: Formula) -> Varying:
    """Return the probability of the likeliest token minus the second largest probability."""
    return Concentration("margin", *as_members("margin", (formula,), least=1))


def indicator(difference: Formula) -> Varying:
    """Return, for each token, 1 if a difference such as `F - G` is above zero, else 0."""
    return Indicator(*as_members("indicator", (difference,), least=1))


def class_prob(judge: Formula) -> Varying:
    """Return a classifier's probability, from 0 to 1, of its label for the text so far."""
    # A name may stand for a classifier; `check` sees its term.
    if not isinstance(judge, (Classifier, Name)):
        raise FormulaError(f"class_prob takes a classifier, not {shown(judge)}")
    return ClassProb(judge)


def first(count: int) -> Varying:
    """Return 1 for the first `count` tokens, then 0."""
    count = plain(count)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 10**9:
        raise FormulaError(f"first takes a whole number from 1, not {shown(count)}")
    return First(count)


def decay(half_life: float) -> Varying:
    """Return 1 for the first token, halved every `half_life` tokens."""
    if not is_number(half_life) or not 0 < half_life <= LARGEST_FACTOR:
        raise FormulaError(f"half_life is a number of tokens above 0, not {shown(half_life)}")
    return Decay(float(half_life))


def position() -> Varying:
    """Return the number of tokens of the answer before this token: 0 for the first token."""
    return Index()


def reasoning() -> Varying:
    """Return 1 if this token is inside the model's reasoning, else 0.

    The prompt may have begun the reasoning. The marks around it are those of the chat template.
    """
    return Inside("reasoning")


def calling() -> Varying:
    """Return 1 if this token is inside a tool call, else 0.

    After a call is opened, only calls follow. The number is 0 if no tool may be called.
    """
    return Inside("calling")


def balance(first: Formula, second: Formula) -> Varying:
    """Return a share b of `first`, with 1 − b for `second`, that avoids reciting memorised text.

    The share is computed at each position, as in CP-Fuse (Abad et al., 2024).
    """
    return Balance(*as_members("balance", (first, second)))


def observed_by(inside: Inside) -> Reasoning | Calling:
    """Return the observation of the part of the text that a factor names."""
    return REASONING if inside.part == "reasoning" else CALLING


def judgement_of(judge: Formula) -> Judgement:
    """Return the observation of the probability that a classifier gives to the text so far."""
    assert isinstance(judge, Classifier), "check() refuses a strength of anything else"
    return Judgement(judge.model, judge.label, judge.read_prompt)


def likelihood_of(member: Formula) -> Likelihood:
    """Return the observation of the likelihood of the text so far under a prompted model."""
    if isinstance(member, Aligned):
        member = member.of
    assert isinstance(member, Term), "check() refuses a balance of anything else"
    return Likelihood(member)
