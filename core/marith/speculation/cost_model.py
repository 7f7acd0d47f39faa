"""The cost of a token under a plan: the paper's appendix E.3, and a simulation of algorithm 2."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import torch
from torch import Tensor

from marith.decoding.evaluate import evaluate
from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import (
    Calling,
    NGram,
    Observation,
    Position,
    Reasoning,
    Term,
    Uniform,
)
from marith.request.plan import MOST, Plan
from marith.speculation.execution_plan import ExecutionPlan, with_observed
from marith.speculation.verify import Verdict, overlap
from marith.speculation.window import DraftWindow
from marith.tensor_rows import rows_of

# If there is a draft, each of these speculative factors (`Plan.every`) is tried for all terms of
# the formula.
LAGS = (2, 3, 4, 5, 6, 8)
TOKENS = 300
# Terms of these kinds need no model.
WITHOUT_MODEL = NGram, Uniform, Position, Reasoning, Calling
Acceptance: TypeAlias = "Callable[[Formula | None, Formula], float]"


@dataclass(frozen=True)
class Price:
    """The cost of evaluating some terms together: `once`, plus `each` for every position."""

    terms: frozenset[Term]
    once: float
    each: float = 0.0

    @classmethod
    def by_calls(cls, term: Term) -> Price:
        """Return a price of 1 for a call, as in the paper, or of 0 for a term without a model.

        The number of positions does not matter.
        """
        return cls(frozenset((term,)), float(not isinstance(term, WITHOUT_MODEL)))

    @classmethod
    def by_time(cls, terms: Iterable[Term], seconds: Mapping[int, float]) -> Price:
        """Return the price on the line through two measurements.

        `seconds` is the time of each number of positions. The line goes through the fewest and the
        most positions.
        """
        few, many = min(seconds), max(seconds)
        each = max(0.0, (seconds[many] - seconds[few]) / max(1, many - few))
        return cls(frozenset(terms), max(0.0, seconds[few] - few * each), each)


@dataclass
class Samples:
    """The log-probabilities of all terms and drafts of `plan` on sampled texts, [tokens, vocab]."""

    plan: ExecutionPlan
    logprobs: Sequence[Mapping[Term, Tensor]]
    _acceptances: dict[tuple[Formula | None, Formula], float] = field(default_factory=dict)

    def acceptance(self, before: Formula | None, after: Formula) -> float:
        """Return the probability that `after` accepts a token drawn from `before`: 1 − ½Σ|P₁ − P₂|.

        This is the mean over all positions (paper, lemma 3). If `before` is None, the token is the
        likeliest one under the n-gram that drafts.
        """
        key = before, after
        if key not in self._acceptances:
            overlaps = [self._overlap(before, after, text) for text in self.logprobs]
            mean = float(torch.cat(overlaps).mean())
            # Rounding may lead to a mean above 1.
            self._acceptances[key] = min(1.0, mean)
        return self._acceptances[key]

    def _overlap(
        self, before: Formula | None, after: Formula, logprobs: Mapping[Term, Tensor]
    ) -> Tensor:
        target = evaluate(after, logprobs).double().exp()
        if before is not None:
            return overlap(target, evaluate(before, logprobs).double().exp())
        proposer = next(term for term in self.plan.drafts if isinstance(term, NGram))
        return target.gather(1, logprobs[proposer].argmax(dim=-1, keepdim=True))[:, 0]


def choose(samples: Samples, prices: Sequence[Price]) -> Plan:
    """Return the cheapest of several plans.

    The candidates are a plan without speculation, and two plans with the paper's factors: one
    computed with the drafts, one without them. The paper's factors minimise a convex cost for each
    term. If there is a draft, plans that evaluate each term only once for several drafted tokens
    are candidates too. The cost of a plan is measured by simulating algorithm 2 with the measured
    acceptances.
    """
    plan = samples.plan
    of_terms = [price for price in prices if not price.terms & set(plan.drafts)]
    by_terms = paper_factors(samples, of_terms)
    candidates = [{}, paper_factors(samples, prices), by_terms]
    if plan.drafts:
        # Each of these terms verifies the tokens that the term before it drafted.
        later = plan.drafts[1:]
        for lag in LAGS:
            whole = dict.fromkeys(plan.terms, lag)
            lagging = {term: max(lag, by_terms.get(term, 1)) for term in plan.terms}
            halved = dict.fromkeys(later, max(1, lag // 2))
            candidates += [whole, {**whole, **halved}, lagging]
    candidates = [with_observed(factors, plan.terms) for factors in candidates]
    simulation = Simulation(plan, samples.acceptance, _cost_of(prices))
    best = min(candidates, key=simulation.cost_per_token)
    named = ((term, s) for term, s in best.items() if not isinstance(term, Observation))
    return Plan(every=tuple((str(term), s) for term, s in named if s > 1))


def paper_factors(samples: Samples, prices: Sequence[Price]) -> dict[Term, int]:
    """Return for each term the factor s that minimises (C + s·C₁) / (1 + a + … + a^{s−1}).

    C is the cost of evaluating the term once. C₁ is the cost for each position: the cost of the
    first terms at a position, plus the term's own cost for a position. Terms are taken in the
    order of `prices`, drafts first. The first terms are the shortest beginning of this order that
    defines a distribution.
    """
    plan = samples.plan
    ordered = sorted(prices, key=lambda price: not price.terms & set(plan.drafts))
    first: set[Term] = set()
    first_cost = 0.0
    every: dict[Term, int] = {}
    for price in ordered:
        before = plan.part(first)
        if before is None:
            first |= price.terms
            first_cost += price.once + price.each
            continue
        after = plan.part(first | price.terms)
        if after is None or after == before:
            continue
        acceptance = samples.acceptance(_drawn_by(plan, before), after)
        s = best_factor(acceptance, price.once, first_cost + price.each)
        every |= dict.fromkeys(price.terms & set(plan.terms), s)
    return every


def _drawn_by(plan: ExecutionPlan, before: Formula) -> Formula | None:
    """Return the formula from which drafted tokens are drawn.

    Return None for an n-gram draft, which proposes tokens without drawing them.
    """
    return None if isinstance(before, NGram) and before in plan.drafts else before


def _cost_of(prices: Sequence[Price]) -> Callable[[Mapping[Term, int]], float]:
    def cost(counts: Mapping[Term, int]) -> float:
        evaluated = [(price, [counts[t] for t in price.terms if t in counts]) for price in prices]
        return sum(price.once + price.each * max(widths) for price, widths in evaluated if widths)

    return cost


def expected_tokens(acceptance: float, drafted: float) -> float:
    """Return the mean number of tokens that a verification of `drafted` tokens yields.

    These are the accepted tokens and one new token. The mean is (1 − a^{γ+1}) / (1 − a) = 1 + a + …
    + a^γ, where a drafted token is accepted with probability a if all tokens before it are
    accepted. It is γ + 1 at a = 1, and 1 at a = 0. γ is `drafted`, a real number of at least 0.
    """
    if acceptance in (0, 1):
        return 1.0 + acceptance * drafted
    # Near a = 1 the difference 1 − a^{γ+1} would lose the digits that expm1 keeps.
    return -math.expm1((drafted + 1) * math.log(acceptance)) / (1 - acceptance)


def cost_per_token(s: float, acceptance: float, cost: float, first_cost: float) -> float:
    """Return the cost of a token if a term is computed `s` positions at a time.

    The cost is (C + s·C₁) / (1 + a + … + a^{s−1}), in the unit of C and C₁. The term costs C. The
    first term costs C₁: it drafts s − 1 tokens, and is evaluated at every position (Dekoninck et
    al. 2024, appendix E.3). A first term that only drafts is evaluated at s − 1 positions.
    This formula ignores the difference; the simulation does not.

    The appendix says that the second derivative in s is negative "and therefore" the problem is
    convex. The sign is a slip: the derivative is positive. 1/(1 − a^s) = Σ e^{−ksL} with L = −log
    a, and s/(1 − a^s) = (1/L)·x/(1 − e^{−x}) at x = sL. Both functions of s are convex. The cost is
    proportional to C times the first plus C₁ times the second, so it is convex too.

    `s` is a real number of at least 1.
    """
    return (cost + s * first_cost) / expected_tokens(acceptance, s - 1)


def best_factor(acceptance: float, cost: float, first_cost: float, limit: int = MOST) -> int:
    """Return the s in 1..limit with the least `cost_per_token`; of equal costs, the smallest s.

    1 means not to speculate. An affine cost divided by a concave number of tokens is quasiconvex,
    so the search ends at the first s whose cost per token is not less than the cost at s − 1.
    """
    best, least = 1, cost_per_token(1, acceptance, cost, first_cost)
    for s in range(2, limit + 1):
        price = cost_per_token(s, acceptance, cost, first_cost)
        if price >= least:
            break
        best, least = s, price
    return best


class Simulation:
    """Runs a `DraftWindow` whose tokens are accepted or rejected at random.

    `acceptance(before, after)` is the probability that the formula `after` accepts a token drawn
    from `before`; if `before` is None, the token was proposed without a distribution. `cost`
    returns the cost of one step from the number of positions of each term. Every plan gets the same
    random numbers.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        acceptance: Acceptance,
        cost: Callable[[Mapping[Term, int]], float],
    ) -> None:
        self.plan = plan
        self.acceptance = acceptance
        self.cost = cost
        self._parts: list[Formula] = []

    def cost_per_token(self, factors: Mapping[Term, int]) -> float:
        """Return the mean cost of a token if terms have these factors."""
        window = DraftWindow(replace(self.plan, factors=factors), TOKENS, (), {})
        draw = random.Random(0)  # noqa: S311 (a simulation, not a secret)
        total = 0.0
        while window.final < TOKENS:
            while room := window.room_to_propose():
                window.propose([0] * room, [None] * room)
            _, counts = window.wanted()
            total += self.cost(counts)
            window.receive({term: rows_of(torch.zeros(n, 1)) for term, n in counts.items()})
            window.accept(self._verdict(window, draw))
        return total / TOKENS

    def _verdict(self, window: DraftWindow, draw: random.Random) -> Verdict:
        """Keep or replace each token.

        In place of a distribution, each row holds the index of its formula in `_parts`.
        """
        tokens, targets = [], []
        part = window.formula
        for pending in window.standing():
            if part not in self._parts:
                self._parts.append(part)
            targets.append([float(self._parts.index(part))])
            before = None
            if pending is not None and pending.draft is not None:
                numbers, row = pending.draft
                before = self._parts[int(numbers[row])]
            stands = pending is None or draw.random() < self.acceptance(before, part)
            # Tokens are 0 or 1 here, so 1 − x replaces a rejected token x.
            tokens.append(0 if pending is None else pending.token if stands else 1 - pending.token)
        return Verdict(tokens, [0.0] * len(tokens), rows_of(torch.tensor(targets)))
