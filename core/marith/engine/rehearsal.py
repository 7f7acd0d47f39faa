"""Algorithm 2 played through without models: what a plan will cost a token."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import torch

from marith.decoding.speculation import Verdict
from marith.engine.stages import Stages
from marith.engine.tail import Tail
from marith.formula.nodes import Formula
from marith.formula.terms import Term

TOKENS = 300
Acceptance: TypeAlias = "Callable[[Formula | None, Formula], float]"


class Rehearsal:
    """The state machine that makes texts, its tokens kept or refused by chance.

    `acceptance(before, after)` is how likely a token drawn by one part of the formula (None:
    proposed outright) stands when another checks it; `cost` is of one step, by how many positions
    each term is asked for. The same random numbers for every plan.
    """

    def __init__(
        self, stages: Stages, acceptance: Acceptance, cost: Callable[[Mapping[Term, int]], float]
    ) -> None:
        self.stages = stages
        self.acceptance = acceptance
        self.cost = cost
        self._parts: list[Formula] = []

    def cost_per_token(self, every: Mapping[Term, int]) -> float:
        """The mean cost of a token where terms lag as `every` says."""
        tail = Tail(replace(self.stages, every=every), TOKENS, (), {})
        draw = random.Random(0)  # noqa: S311 (a rehearsal, not a secret)
        spent = 0.0
        while tail.final < TOKENS:
            while room := tail.room_to_guess():
                tail.propose([0] * room, [None] * room)
            _, counts = tail.asks()
            spent += self.cost(counts)
            tail.hear({term: torch.zeros(count, 1) for term, count in counts.items()})
            if tail.blocks():
                tail.settle(self._verdict(tail, draw))
        return spent / TOKENS

    def _verdict(self, tail: Tail, draw: random.Random) -> Verdict:
        """A token is kept or replaced by another; its distribution is the number of a part."""
        tokens, truths = [], []
        for pending, part in zip(tail.stands(), tail.parts, strict=True):
            if part not in self._parts:
                self._parts.append(part)
            truths.append([float(self._parts.index(part))])
            before = None
            if pending is not None and pending.guess is not None:
                before = self._parts[int(pending.guess)]
            stands = pending is None or draw.random() < self.acceptance(before, part)
            tokens.append(0 if pending is None else pending.token if stands else 1 - pending.token)
        return Verdict(tokens, [0.0] * len(tokens), torch.tensor(truths))
