"""Which stage verifies which positions, and when; this never depends on the tokens there.

A stage of factor s is due when there are s − 1 tokens that it has not verified; the first stage is
due whenever another one is. The stage then verifies these tokens, and the next token is drawn from
its formula. If it needs terms of an earlier stage that is not due, it verifies only as many tokens
as that stage has. So the stage that verifies a position depends on lengths and on refusals before
it, and never on the token there: an order that differed by token would favour some tokens
(decision 13).

Example: stages (a: 1) and (a + b: 3). At lengths 0 and 1, a is evaluated and a token is drawn from
it. At length 2, a is evaluated at position 2, and b at 0, 1 and 2: a + b verifies the tokens at 0
and 1, which were drawn from a. If both are accepted, the third token is drawn from a + b.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import count

from marith.formula.tree.terms import Term
from marith.speculation.execution_plan import ExecutionPlan, Groups, Stage


class VerificationOrder:
    """How far each stage has verified one text, and which verifies next. Keeps state.

    `rooms` has the number of tokens that fit into the context of each draft.
    """

    def __init__(self, plan: ExecutionPlan, rooms: Mapping[Term, int]) -> None:
        self.plan = plan
        self.rooms = rooms
        self.groups: Groups = plan.at_once if plan.adapts else plan.groups
        self.sizes: tuple[int, ...] = (1,) if plan.adapts else plan.sizes
        self.reached = [0] * len(self.groups)  # for each group, how many positions it has verified

    @property
    def final(self) -> int:
        """How many positions all stages have verified."""
        return self.reached[-1]

    def begin(self, length: int, drafted: int, by_models: bool) -> None:
        """Let the terms verify `drafted` tokens from here on, drafted by models or by proposers."""
        self.groups = self.plan.groups if by_models else self.plan.at_once
        self.sizes = (*[1] * (len(self.groups) - 1), drafted + 1)
        self.reached = [length] * len(self.groups)

    def next(self, length: int, end: int) -> tuple[Stage, range]:
        """The stage that verifies a text of this length, and its positions before `end`.

        It is the last stage that is due and has such positions. Where none is due, because the text
        is closed or no proposer has a token, it is the one that would be due after more tokens, so
        that the last token has no influence.
        """
        for assumed_length in count(length):
            stages = self.stages(assumed_length)
            due = [stage for stage in stages if self.due(stage) <= assumed_length]
            if due and due[0] is not stages[0]:  # the first stage is due whenever another one is
                due.insert(0, stages[0])
            for stage in reversed(due):
                not_due = [s for s in stages[: stages.index(stage)] if s not in due]
                needed = self.plan.needed(stage.formula)
                ends = [self.reached[s.index] for s in not_due if s.terms.intersection(needed)]
                places = range(self.reached[stage.index], min([end, *ends]))
                if places:
                    return stage, places
        raise AssertionError("the last stage is due at some length")

    def advance(self, stage: Stage, verified: int, length: int) -> None:
        """Record that a stage has verified so many positions; the text now has this length."""
        for i, reached in enumerate(self.reached):
            self.reached[i] = min(max(reached, verified if i <= stage.index else 0), length)

    def room(self, length: int) -> int:
        """How many tokens may be added before a stage is due."""
        return min(map(self.due, self.stages(length))) - length

    def rewind(self, place: int) -> None:
        """Record that every stage has verified the positions before `place`, and no others."""
        self.reached = [place] * len(self.reached)

    def stages(self, length: int) -> tuple[Stage, ...]:
        """The stages at a text of this length."""
        return self.plan.stages(self.groups, self.beyond(length))

    def due(self, stage: Stage) -> int:
        """The length at which a stage is due."""
        return self.reached[stage.index] + self.sizes[stage.index] - 1

    def beyond(self, length: int) -> frozenset[Term]:
        """The drafts in whose contexts a text of this length does not fit."""
        return frozenset(t for t in self.plan.drafts if length >= self.rooms.get(t, math.inf))
