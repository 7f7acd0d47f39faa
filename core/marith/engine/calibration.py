"""How many positions of a term to compute at a time: the paper's appendix E.3."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from marith.engine.job import Job
from marith.engine.measuring import Price, Samples, Stopwatch, Transcript
from marith.engine.plan import MOST, Plan
from marith.engine.reader import Reader
from marith.engine.rehearsal import Rehearsal
from marith.engine.stages import Stages, watched
from marith.errors import RequestError
from marith.formula.nodes import Formula
from marith.formula.terms import NGram, Observation, Term

LAGS = (2, 3, 4, 5, 6, 8)  # of the whole formula, where there is a draft


def calibrate(
    texts: Sequence[tuple[Reader, Sequence[int]]],
    run: Callable[[Job], None],
    costs: Literal["time", "calls"],
) -> Plan:
    """The plan that costs least for a formula, from texts that were sampled from it.

    Each text with a reader of its prompt, opened with the formula's own drafts; `run` hands a job
    to whoever runs it.
    """
    asked = [(reader, tokens) for reader, tokens in texts if tokens]
    if not asked:
        return Plan()
    transcripts = [Transcript(reader, tokens) for reader, tokens in asked]
    for transcript in transcripts:
        run(transcript)
    samples = Samples(asked[0][0].stages, [one.answer.wait() for one in transcripts])
    if costs == "calls":
        return choose(samples, [Price.by_calls(term) for term in samples.stages.voices])
    at = max(range(len(asked)), key=lambda i: len(asked[i][1]))
    prices = []
    for group in _groups(asked[at][0]):
        stopwatch = Stopwatch(*asked[at], group, samples.said[at])
        run(stopwatch)
        prices.append(Price.by_time(group, stopwatch.answer.wait()))
    return choose(samples, prices)


def check_samples(prompts: Any, costs: Any) -> None:
    """Raises RequestError for what nothing can be measured by."""
    if isinstance(prompts, str) or not isinstance(prompts, Sequence) or not prompts:
        raise RequestError(f"prompts are a list of at least one prompt, not {prompts!r}")
    if costs not in ("time", "calls"):
        raise RequestError(f"costs are 'time' or 'calls', not {costs!r}")


def choose(samples: Samples, prices: Sequence[Price]) -> Plan:
    """The plan that costs least, of the paper's own, none, and every lag under a draft.

    The paper's factors come from one convex minimisation a term, with the drafts or without them;
    which of these plans costs least is found by rehearsing algorithm 2 with the measured
    acceptances.
    """
    stages = samples.stages
    own = [price for price in prices if not price.terms & set(stages.drafts)]
    candidates = [{}, paper_factors(samples, prices), by_terms := paper_factors(samples, own)]
    if stages.drafts:
        later = stages.drafts[1:]  # each checks what the one before it proposed
        for lag in LAGS:
            whole = dict.fromkeys(stages.terms, lag)
            lagging = {term: max(lag, by_terms.get(term, 1)) for term in stages.terms}
            halved = dict.fromkeys(later, max(1, lag // 2))
            candidates += [whole, {**whole, **halved}, lagging]
    candidates = [watched(factors, stages.terms) for factors in candidates]
    rehearsal = Rehearsal(stages, samples.acceptance, _cost_of(prices))
    best = min(candidates, key=rehearsal.cost_per_token)
    named = ((term, s) for term, s in best.items() if not isinstance(term, Observation))
    return Plan(every=tuple((str(term), s) for term, s in named if s > 1))


def paper_factors(samples: Samples, prices: Sequence[Price]) -> dict[Term, int]:
    """For each price its own s by (C + s·C₁) / (1 + a + … + a^{s−1}), C₁ what speaks first."""
    stages = samples.stages
    ordered = sorted(prices, key=lambda price: not price.terms & set(stages.drafts))
    first: set[Term] = set()
    first_cost = 0.0
    every: dict[Term, int] = {}
    for price in ordered:
        before = stages.part(first)
        if before is None:
            first |= price.terms
            first_cost += price.once + price.each
            continue
        after = stages.part(first | price.terms)
        if after is None or after == before:
            continue
        acceptance = samples.acceptance(_drawn_by(stages, before), after)
        drafted = first <= set(stages.drafts)
        s = best_factor(acceptance, price.once, first_cost + price.each, MOST, drafted)
        every |= dict.fromkeys(price.terms & set(stages.terms), s)
    return every


def _drawn_by(stages: Stages, before: Formula) -> Formula | None:
    """What tokens are drawn from; None for an n-gram that drafts, whose likeliest is proposed."""
    return None if isinstance(before, NGram) and before in stages.drafts else before


def _cost_of(prices: Sequence[Price]) -> Callable[[Mapping[Term, int]], float]:
    def cost(counts: Mapping[Term, int]) -> float:
        asked = [(price, [counts[t] for t in price.terms if t in counts]) for price in prices]
        return sum(price.once + price.each * max(own) for price, own in asked if own)

    return cost


def _groups(reader: Reader) -> list[list[Term]]:
    """The terms and drafts that are computed in one call: those of one scorer."""
    together: dict[int, list[Term]] = {}
    for term in reader.stages.voices:
        together.setdefault(id(reader.scorers[term]), []).append(term)
    return list(together.values())


def expected_tokens(acceptance: float, drafted: float) -> float:
    """Tokens made on average by one check of `drafted` tokens, the one it adds included.

    (1 − a^{γ+1}) / (1 − a) = 1 + a + … + a^γ, where each drafted token stands with probability a
    if those before it stood: γ + 1 at a = 1 and 1 at a = 0. `drafted` may be real, from 0.
    Raises ValueError outside these ranges.
    """
    if not 0 <= acceptance <= 1:
        raise ValueError(f"an acceptance lies in [0, 1], not {acceptance!r}")
    if not 0 <= drafted < math.inf:
        raise ValueError(f"the number of drafted tokens is finite and from 0, not {drafted!r}")
    if acceptance == 1:
        return drafted + 1.0
    if acceptance == 0:
        return 1.0
    # Near a = 1 the difference 1 − a^{γ+1} would lose the digits that expm1 keeps.
    return -math.expm1((drafted + 1) * math.log(acceptance)) / (1 - acceptance)


def cost_per_token(
    s: float, acceptance: float, cost: float, first_cost: float, superseded: bool = False
) -> float:
    """Compute per token, in the unit of the costs, of a term computed for `s` positions at a time.

    (C + s·C₁) / (1 + a + … + a^{s−1}): the term costs C, and the first, which drafts s − 1 tokens
    and must speak at every position, C₁ (Dekoninck et al. 2024, appendix E.3). A first term that
    is `superseded` need not speak where the truth does: (s − 1)·C₁, as the authors' script has it.

    The appendix says that the second derivative in s is negative "and therefore" the problem
    convex; that is a slip of sign: it is positive. With 1/(1 − a^s) = Σ e^{−ksL}, L = −log a, and
    s/(1 − a^s) = (1/L)·x/(1 − e^{−x}) at x = sL, both convex, so is their sum with weights C and
    C₁. Superseded, the weights are C − C₁ and C₁, and this needs C ≥ C₁.

    `s` may be real, from 1. Raises ValueError for what is out of range.
    """
    if not 1 <= s < math.inf:
        raise ValueError(f"a speculative factor is finite and from 1, not {s!r}")
    for value in (cost, first_cost):
        if not 0 <= value < math.inf:
            raise ValueError(f"a cost is finite and from 0, not {value!r}")
    spoken = s - 1 if superseded else s
    return (cost + spoken * first_cost) / expected_tokens(acceptance, s - 1)


def best_factor(
    acceptance: float,
    cost: float,
    first_cost: float,
    most: int = 16,
    superseded: bool = False,
) -> int:
    """The s in 1..most of least `cost_per_token`, the smallest of equals; 1 is not to speculate.

    An affine cost over a concave number of tokens is quasiconvex whatever the costs, so the
    search ends where another position no longer pays. Raises ValueError for what is out of range.
    """
    if most < 1:
        raise ValueError(f"the largest speculative factor is a whole number from 1, not {most!r}")
    best, least = 1, cost_per_token(1, acceptance, cost, first_cost, superseded)
    for s in range(2, most + 1):
        price = cost_per_token(s, acceptance, cost, first_cost, superseded)
        if price >= least:
            break
        best, least = s, price
    return best
