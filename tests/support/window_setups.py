"""The set-ups whose paths are all enumerated: formulas, their laws, and their drafts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from support.term_tables import Law, Row, Rows, cut_min_p, cut_top_k, log_softmax
from support.window_driver import Setup

from marith import Plan, Sampling

SUM, PART = "M + 0.8*a - 0.5*b", "supersede(d, M) + 0.8*a - 0.5*b"
ASIDE = f"where(reasoning() > 0, h, {SUM})"
FACTORS = [factors for factors in product((1, 2, 3), repeat=3) if 1 in factors]


def weighted(**factors: float) -> Law:
    """Return the law of a sum of terms, each with its factor."""
    total = sum(factors.values())
    return lambda rows, _: sum((f * rows[name] for name, f in factors.items()), np.zeros(3)) / total


def guided(rows: Rows, _: Sequence[int]) -> Row:
    """Return the scores of `M + 0.5*b + 1.5*C`. It judges the two likeliest tokens of `a`."""
    judged = np.argsort(-rows["a"])[:2]
    ratios = np.where(np.isin(np.arange(3), judged), rows["C"], 0.0)
    return (rows["M"] + 0.5 * rows["b"] + 1.5 * ratios) / 1.5


def with_union(rows: Rows, _: Sequence[int]) -> Row:
    """Return the scores of `M - 0.6*union(a, b) + 0.4*c`."""
    union = log_softmax(np.maximum(rows["a"], rows["b"]))
    return (rows["M"] - 0.6 * union + 0.4 * rows["c"]) / 0.8


def with_cut(rows: Rows, _: Sequence[int]) -> Row:
    """Return the scores of `M.top_k(2) + 0.8*a - 0.5*b`. The cut only excludes tokens."""
    kept = np.isfinite(cut_top_k(rows["M"], 2))
    return np.where(kept, SUMMED(rows, ()), -np.inf)


def plausible(rows: Rows, _: Sequence[int]) -> Row:
    """Return the scores of `M.min_p(0.3) + 0.8*a - 0.5*b`."""
    kept = np.isfinite(cut_min_p(rows["M"], 0.3))
    return np.where(kept, SUMMED(rows, ()), -np.inf)


def at_first(rows: Rows, text: Sequence[int]) -> Row:
    """Return the scores of `M + first(2)*a + 0.5*b`."""
    weight = 1.0 * (len(text) < 2)
    return (rows["M"] + weight * rows["a"] + 0.5 * rows["b"]) / (1.5 + weight)


def fading(rows: Rows, text: Sequence[int]) -> Row:
    """Return the scores of `mixture(0.3, M, 0.7, a) + decay(3)*b + c`."""
    mixed = np.log(0.3 * np.exp(rows["M"]) + 0.7 * np.exp(rows["a"]))
    weight = 0.5 ** (len(text) / 3)
    return (mixed + weight * rows["b"] + rows["c"]) / (2 + weight)


def reasons(text: Sequence[int]) -> bool:
    return sum(text) % 2 == 1


def aside(rows: Rows, text: Sequence[int]) -> Row:
    """Return the scores of the sum after some texts, and of `h` after others.

    `h` excludes some tokens.
    """
    return rows["h"] if reasons(text) else SUMMED(rows, text)


def lengths(text: Sequence[int]) -> tuple[int, bool]:
    """Return how much "auto" drafts after a text: 0 to 3 tokens, and whether models draft them."""
    return (len(text) + 2 * text[-1]) % 4, text[0] == 1


SUMMED = weighted(M=1, a=0.8, b=-0.5)
NEGATIVE = weighted(M=1, b=-2, c=3)
HOLES = weighted(h=1, a=0.8, b=0.5)


def of_factors(formula: str, law: Law, names: str, *factors: int) -> Setup:
    return Setup(formula, law, Plan.factors(dict(zip(names, factors, strict=True))))


def all_factors() -> dict[str, Setup]:
    """Return every combination of factors that has a term at every token, for two sums."""
    sums = {SUM: (SUMMED, "Mab"), "M - 2*b + 3*c": (NEGATIVE, "Mbc")}
    return {
        f"{formula}: {factors}": of_factors(formula, law, names, *factors)
        for formula, (law, names) in sums.items()
        for factors in FACTORS
    }


SETUPS: dict[str, Setup] = {
    "nothing drafted": Setup(SUM, SUMMED),
    "a mixture, nothing drafted": Setup("mixture(0.3, M, 0.7, a) + decay(3)*b + c", fading),
    "factors 1 2 3, a stage without weight": of_factors("M - 2*b + 3*c", NEGATIVE, "Mbc", 1, 2, 3),
    "tokens without probability": of_factors("h + 0.8*a + 0.5*b", HOLES, "hab", 1, 2, 2),
    "a classifier": of_factors("M + 0.5*b + 1.5*C", guided, "MbC", 1, 2, 2),
    "a cut": of_factors("M.top_k(2) + 0.8*a - 0.5*b", with_cut, "Mab", 1, 2, 2),
    "a plausible part": of_factors("M.min_p(0.3) + 0.8*a - 0.5*b", plausible, "Mab", 2, 1, 2),
    "factors by place": of_factors("M + first(2)*a + 0.5*b", at_first, "Mab", 1, 2, 2),
    "a proposer": Setup(SUM, SUMMED, Plan.drafts("N", length=2)),
    "drafts whose contexts end": Setup(
        SUM, SUMMED, Plan.drafts("d", "e", length=2), rooms={"d": 2, "e": 4}
    ),
    "texts that end": replace(of_factors(SUM, SUMMED, "Mab", 1, 2, 3), ends=frozenset({2})),
    "temperature and top_k": replace(
        of_factors(SUM, SUMMED, "Mab", 1, 3, 3), sampling=Sampling(0.7, top_k=2)
    ),
    "top_p, min_p and repetition": Setup(
        SUM,
        SUMMED,
        Plan.drafts("d", length=2),
        Sampling(1.5, top_p=0.9, min_p=0.2, repetition_penalty=1.3),
    ),
    "auto": Setup(SUM, SUMMED, "auto", lengths=lengths),
    "auto, a draft for a part": Setup(PART, SUMMED, "auto", lengths=lengths),
    "auto, another formula aside": Setup(ASIDE, aside, "auto", lengths=lengths, reasons=reasons),
    "factors 1 2 3, another formula aside": replace(
        of_factors(ASIDE, aside, "hMab", 1, 1, 2, 3), reasons=reasons
    ),
}


def every_setup() -> dict[str, Setup]:
    """Return all set-ups, also those that take long, and all factors of two sums."""
    parts = "supersede(d, M) + 0.8*supersede(e, a) - 0.5*b"
    long = {
        "factors 1 2 3": of_factors(SUM, SUMMED, "Mab", 1, 2, 3),
        "factors 2 3 1, a negative term first": of_factors(SUM, SUMMED, "Mab", 2, 3, 1),
        "a cut draft": Setup(SUM, SUMMED, Plan.drafts("d.top_k(2)", length=2)),
        "a proposer and a draft": Setup(SUM, SUMMED, Plan.drafts("N", "d", length=3)),
        "a draft for a part": of_factors(PART, SUMMED, "Mabd", 2, 1, 2, 1),
        "penalties and biases": Setup(
            SUM,
            SUMMED,
            Plan.drafts("d", length=2),
            Sampling(
                0.9, presence_penalty=0.6, frequency_penalty=0.4, logit_bias={0: 0.7, 2: -0.5}
            ),
        ),
        "a union": of_factors("M - 0.6*union(a, b) + 0.4*c", with_union, "Mabc", 1, 2, 2, 1),
        "one draft": Setup(SUM, SUMMED, Plan.drafts("d", length=2)),
        "factors 2 1 3, tokens without probability": of_factors(
            "h + 0.8*a + 0.5*b", HOLES, "hab", 2, 1, 3
        ),
        "factors 1 3 2, a classifier": of_factors("M + 0.5*b + 1.5*C", guided, "MbC", 1, 3, 2),
        "factors 1 2 3, a cut": of_factors("M.top_k(2) + 0.8*a - 0.5*b", with_cut, "Mab", 1, 2, 3),
        "factors 1 3 2, by place": of_factors("M + first(2)*a + 0.5*b", at_first, "Mab", 1, 3, 2),
        "factors 3 2 1, a draft for a part": of_factors(PART, SUMMED, "Mabd", 3, 2, 1, 1),
        "factors 3 2 3, drafts for two parts": of_factors(parts, SUMMED, "Mab", 3, 2, 3),
        "two drafts": Setup(SUM, SUMMED, Plan.drafts("d", "e", length=3)),
        "a chain of three": Setup(SUM, SUMMED, Plan.drafts("N", "d", "e", length=4)),
    }
    return SETUPS | long | all_factors()
