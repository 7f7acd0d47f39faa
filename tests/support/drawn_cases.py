"""Formulas with drafts and grammars, and enough texts of each for 20,000 tokens.

The test suite samples a part of them, to see that the engine uses what the enumeration in
`tests/laws` proves; `tests/evidence` samples all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from support.languages import NESTED, REGULAR, Language
from support.small_engine import Draws, SmallEngine, answers, draws, share_of_rejected

from marith import Completion, Plan, Request, Sampling, Stop, parse

ENOUGH = 20_000  # draws of each case
EIGHTH, TWENTIETH = 0.125, 0.05
PROMPTS = ("a b", "c", "e f a d a b c a", "b b")


@dataclass(frozen=True)
class Case:
    """A formula, how it is drafted, and the number of texts that have `ENOUGH` tokens."""

    formula: str
    speculation: object
    sampling: Sampling
    texts: int
    tokens: int = 16
    spread: int = 4
    prompts: Sequence[str] = PROMPTS
    language: Language | None = None

    def requests(self, small: SmallEngine, share: float = 1.0) -> list[Request]:
        """Return a `share` of all requests: prompts and lengths of all sizes, a seed for each."""
        formula = parse(self.formula)
        named = re.findall(r"\w+", f"{self.formula} {self.speculation}")
        terms = {name: term for name, term in small.terms.items() if name in named}
        return [
            Request(
                self.prompts[i % len(self.prompts)],
                formula,
                terms,
                replace(self.sampling, seed=i),
                Stop(max(1, self.tokens - i % self.spread)),
                self.speculation,  # type: ignore[arg-type]  # as a table holds it
                grammar=self.language.grammar if self.language else None,
            )
            for i in range(round(self.texts * share))
        ]

    def draws(
        self, small: SmallEngine, requests: Sequence[Request], done: Sequence[Completion]
    ) -> Draws:
        """Return every token with the distribution that it should have been sampled from."""
        return draws(small, requests, done, self.language.allowed if self.language else None)

    def require_distribution(
        self, small: SmallEngine, share: float = 1.0
    ) -> tuple[Draws, list[Completion]]:
        """Require that tokens have the distribution of the formula, and not of another."""
        requests = self.requests(small, share)
        done = answers(small, requests)
        drawn = self.draws(small, requests, done)
        assert len(drawn.tokens) >= ENOUGH * share
        if self.speculation is not None:
            assert sum(one.stats.accepted for one in done) >= 1000 * share
            assert share_of_rejected(done) >= 0.1
        assert drawn.of_marginals() > 1e-3
        assert drawn.of_pairs() > 1e-3
        others = [replace(request, formula="x") for request in requests]
        assert self.draws(small, others, done).of_pairs() < 1e-6
        return drawn, done


CHAIN = "a fitted n-gram under a small model"
ENDING = "factors 1 3 5 2, and texts that end early"
PLANNED = {
    "factors 1 2 3, a classifier among them": Case(
        "0.5*x + M + 1.5*C",
        Plan.factors({"x": 1, "C": 2, "M": 3}),
        Sampling(1.0),
        texts=6500,
        tokens=4,
        spread=2,
        prompts=PROMPTS[:1],
    ),
    "factors 1 4 4, a union, and a small model until a term speaks": Case(
        "x - 0.7*union(x, y) + 0.8*supersede(small, z)",
        Plan.factors({"x": 1, "y": 4, "z": 4}),
        Sampling(0.7, top_p=0.95),
        texts=1900,
        tokens=24,
        spread=5,
    ),
    ENDING: Case(
        "x - 0.8*y + 1.5*M + 0.9*ends",
        Plan.factors({"x": 1, "y": 3, "M": 5, "ends": 2}),
        Sampling(1.0),
        texts=3050,
        spread=5,
    ),
    "an online n-gram": Case(
        "x - 0.6*y + M",
        Plan.drafts("own", length=4),
        Sampling(1.0, top_p=0.9),
        texts=1400,
        tokens=24,
        spread=5,
    ),
    CHAIN: Case(
        "x - 0.6*y + M",
        Plan.drafts("A", "small", length=4),
        Sampling(1.0),
        texts=1550,
        tokens=24,
        spread=5,
    ),
}

ONLINE = "an online n-gram, a nested grammar"
CUT, CUT_DRAFTED = "a cut of the whole, a nested grammar", "a cut of a part, factors 1 3 4"
STAGED = "factors 1 3 4, a nested grammar"
HELD = {
    "nothing drafted, a regular expression": Case(
        "x - 0.7*union(x, y) + 0.8*z", None, Sampling(0.8, top_p=0.9), 1900, language=REGULAR
    ),
    STAGED: Case(
        "x - 0.8*y + 1.5*M",
        Plan.factors({"x": 1, "y": 3, "M": 4}),
        Sampling(1.5, top_p=0.95),
        2000,
        language=NESTED,
    ),
    "a small model, a regular expression": Case(
        "x - 0.6*y + M", Plan.drafts("small", length=4), Sampling(1.0), 1750, language=REGULAR
    ),
    ONLINE: Case(
        "x - 0.6*y + M",
        Plan.drafts("own", length=4),
        Sampling(1.0, top_p=0.9),
        2050,
        language=NESTED,
    ),
    CUT: Case("(x - 0.6*y + M).min_p(0.4)", None, Sampling(1.0), 2000, language=NESTED),
    CUT_DRAFTED: Case(
        "x - 0.5*y + (1.5*M).min_p(0.2)",
        Plan.factors({"x": 1, "y": 3, "M": 4}),
        Sampling(1.5),
        2000,
        language=NESTED,
    ),
}
ADAPTS = Case("x - 0.6*y + M", "auto", Sampling(0.9, top_p=0.95), 2100, language=NESTED)
