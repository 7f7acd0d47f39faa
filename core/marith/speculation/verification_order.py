"""Which stage verifies which positions, and when: fixed before a token stands there.

A stage of factor s falls due where s − 1 tokens stand that it has not verified; the first stage is
due wherever another one is. It then verifies them, and the next token is drawn from its formula;
or, where a stage before it whose terms it needs is not due, it verifies as many as that one has.
What verifies a position so depends on lengths and on refusals before it, and never on the token
that stands there: an order that differed by token would favour some of them (decision 13).

Example, stages (a: 1), (a + b: 3). At lengths 0 and 1, a is evaluated and a token drawn from it. At
length 2, a is evaluated at position 2 and b at 0, 1 and 2: a + b verifies the tokens at 0 and 1,
which were drawn from a, and if both stand the third is drawn from a + b.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import count

from marith.formula.tree.terms import Term
from marith.speculation.execution_plan import ExecutionPlan, Groups, Stage


class VerificationOrder:
    """How far each stage has verified one text, and what follows from it. Keeps state.

    `rooms` are how many tokens the contexts of drafts hold.
    """

    def __init__(self, plan: ExecutionPlan, rooms: Mapping[Term, int]) -> None:
        self.plan = plan
        self.rooms = rooms
        self.groups: Groups = plan.at_once if plan.adapts else plan.groups
        self.sizes: tuple[int, ...] = (1,) if plan.adapts else plan.sizes
        self.reached = [0] * len(self.groups)  # by group, one past the last that it verified

    @property
    def final(self) -> int:
        """How many positions every stage has verified."""
        return self.reached[-1]

    def begin(self, length: int, drafted: int, by_models: bool) -> None:
        """From here on the terms verify so many tokens, which models draft, or proposers alone."""
        self.groups = self.plan.groups if by_models else self.plan.at_once
        self.sizes = (*[1] * (len(self.groups) - 1), drafted + 1)
        self.reached = [length] * len(self.groups)

    def next(self, length: int, end: int) -> tuple[Stage, range]:
        """The stage that verifies a text of this length, and the positions before `end`.

        Of all that are due, the last one first. Where none is due, since no token follows or no
        proposer has one: what would be due if some did, so that the last token has no influence.
        """
        for at in count(length):
            stages = self.stages(at)
            due = [stage for stage in stages if self.due(stage) <= at]
            if due and due[0] is not stages[0]:  # what proposes needs no stage to be ready for it
                due.insert(0, stages[0])
            for stage in reversed(due):
                waiting = [s for s in stages[: stages.index(stage)] if s not in due]
                needed = self.plan.needed(stage.formula)
                ends = [self.reached[s.index] for s in waiting if s.terms.intersection(needed)]
                places = range(self.reached[stage.index], min([end, *ends]))
                if places:
                    return stage, places
        raise AssertionError("the last stage falls due")

    def advance(self, stage: Stage, verified: int, length: int) -> None:
        """The stage has verified all before a position; the text now has this length."""
        for i, reached in enumerate(self.reached):
            self.reached[i] = min(max(reached, verified if i <= stage.index else 0), length)

    def room(self, length: int) -> int:
        """How many tokens may be added before a stage falls due."""
        return min(map(self.due, self.stages(length))) - length

    def rewind(self, place: int) -> None:
        """Every stage has verified so much, and no more."""
        self.reached = [place] * len(self.reached)

    def stages(self, length: int) -> tuple[Stage, ...]:
        """The stages at a text of this length."""
        return self.plan.stages(self.groups, self.beyond(length))

    def due(self, stage: Stage) -> int:
        """The length at which a stage falls due."""
        return self.reached[stage.index] + self.sizes[stage.index] - 1

    def beyond(self, length: int) -> frozenset[Term]:
        """The drafts whose contexts hold no text of this length."""
        return frozenset(t for t in self.plan.drafts if length >= self.rooms.get(t, math.inf))
