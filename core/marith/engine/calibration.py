"""How many positions of a term to compute at a time: the paper's appendix E.3."""

from __future__ import annotations

import math


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
