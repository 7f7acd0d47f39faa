"""Pairs of first tokens from a vocabulary of eight, sampled by the engine."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from scipy.stats import chisquare
from support.reference import Reference
from support.small_engine import SmallEngine

from marith import Request, Sampling, Stop
from marith.decoding.sampling import warp

TERMS = {"x": "b c", "y": "d", "z": "a a a"}
FORMULAS = (
    "x - 0.6*y + M",
    "M - 0.9*union(x, y) + 0.5*intersection(y, z)",
    "2*x - 0.5*M + 0.5*y + ngram(texts=['a b c', 'b b'])",
)


def require_pairs(small: SmallEngine, formula: str, temperature: float, count: int) -> None:
    """Require that pairs have the distribution of the formula, and not that of another."""

    def ask(seed: int) -> Request:
        sampling = Sampling(temperature, top_p=0.95, seed=seed)
        return Request("a b", formula, TERMS, sampling, Stop(2))

    tickets = [small.engine.submit(ask(seed)) for seed in range(count)]
    counts = Counter(tuple(ticket.result(60).tokens) for ticket in tickets)
    assert p_value(counts, pairs_expected(small.reference, ask(0))) > 1e-3
    other = Request("a b", "M", None, Sampling(temperature, top_p=1.0), Stop(2))
    assert p_value_or_zero(counts, pairs_expected(small.reference, other)) < 1e-6


def pairs_expected(reference: Reference, request: Request) -> dict[tuple[int, ...], float]:
    """Return the probability of every pair of first tokens. A text that ends has one token less."""
    sampling, expected = request.sampling, {}
    first = warped(reference, request, sampling, [])
    for a, p in enumerate(first):
        if a in reference.vocabulary.eos_ids:
            expected[()] = p
            continue
        for b, q in enumerate(warped(reference, request, sampling, [a])):
            key = (a,) if b in reference.vocabulary.eos_ids else (a, b)
            expected[key] = expected.get(key, 0.0) + p * q
    return expected


def warped(
    reference: Reference, request: Request, sampling: Sampling, tokens: list[int]
) -> list[float]:
    logprobs = reference.penalised(request, reference.distribution(request, tokens), tokens)
    return [float(p) for p in warp(logprobs, sampling)[0].exp()]


def p_value(counts: Counter[Any], expected: Mapping[Any, float]) -> float:
    """Return the p-value of a chi-square test. Cells that expect fewer than five are joined."""
    assert all(expected.get(key, 0.0) > 0 for key in counts), "drew what has no probability"
    total = sum(counts.values())
    large = [key for key, p in expected.items() if p * total >= 5]
    seen = [counts[key] for key in large]
    wanted = [expected[key] * total for key in large]
    rest = total - math.fsum(wanted)
    if rest >= 5:
        seen, wanted = [*seen, total - sum(seen)], [*wanted, rest]
    scale = sum(seen) / math.fsum(wanted)
    return float(chisquare(seen, [w * scale for w in wanted]).pvalue)


def p_value_or_zero(counts: Counter[Any], expected: Mapping[Any, float]) -> float:
    """Return the p-value, or 0 if a text was sampled that the distribution excludes."""
    impossible = any(expected.get(key, 0.0) <= 0 for key in counts)
    return 0.0 if impossible else p_value(counts, expected)
