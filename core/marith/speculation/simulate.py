"""Simulates algorithm 2 without models, for the cost of a token under a plan."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import torch

from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Term
from marith.speculation.execution_plan import ExecutionPlan
from marith.speculation.verify import Verdict
from marith.speculation.window import DraftWindow
from marith.tensor_rows import rows_of

TOKENS = 300
Acceptance: TypeAlias = "Callable[[Formula | None, Formula], float]"


class Simulation:
    """Runs a `DraftWindow` whose tokens are accepted or refused at random.

    `acceptance(before, after)` is the probability that the formula `after` accepts a token drawn
    from `before` (None: proposed without a distribution); `cost` is that of one step, by the number
    of positions for each term. Every plan gets the same random numbers.
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
        """The mean cost of a token if terms have these factors."""
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
        """Keep or replace each token; in place of its distribution is the number of a formula."""
        tokens, targets = [], []
        for pending, part in zip(window.standing(), window.formulas, strict=True):
            if part not in self._parts:
                self._parts.append(part)
            targets.append([float(self._parts.index(part))])
            before = None
            if pending is not None and pending.draft is not None:
                numbers, row = pending.draft
                before = self._parts[int(numbers[row])]
            stands = pending is None or draw.random() < self.acceptance(before, part)
            tokens.append(0 if pending is None else pending.token if stands else 1 - pending.token)
        return Verdict(tokens, [0.0] * len(tokens), rows_of(torch.tensor(targets)))
