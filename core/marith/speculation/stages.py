"""The stages of a plan: which terms verify together, and in which order they verify a text.

Terms with the same speculative factor (`Plan.every`; the paper, section 4) are a stage. A stage has
a partial formula: the distribution that the formula defines while only the terms of this stage and
of earlier stages are evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

from marith.formula.tree.nodes import Formula
from marith.formula.tree.terms import Term
from marith.speculation.execution_plan import ExecutionPlan, Groups


@dataclass(frozen=True, slots=True)
class Stage:
    """The partial formula of a group of terms and all groups before it.

    `index` is the index of the group. `terms` are the terms of `formula` that no earlier stage has.
    """

    index: int
    formula: Formula
    terms: frozenset[Term]


# Many texts have the same plan.
@lru_cache(maxsize=1024)
def stages_of(plan: ExecutionPlan, groups: Groups, without: frozenset[Term]) -> tuple[Stage, ...]:
    """Return the stages of some groups of terms. `without` are drafts that cannot be evaluated.

    A group is joined with the next group in two cases: if the group and the groups before it define
    no distribution, like b in `M - 2*b + 3*c`, or if the group does not change the distribution of
    the groups before it.
    """
    return tuple(_stages(plan, groups, without))


def _stages(plan: ExecutionPlan, groups: Groups, without: frozenset[Term]) -> Iterator[Stage]:
    evaluated: frozenset[Term] = frozenset()
    joining: frozenset[Term] = frozenset()
    before: Formula | None = None
    for index, group in enumerate(groups):
        joining |= group - without
        evaluated |= joining
        formula = plan.part(evaluated)
        if formula == plan.whole:
            # Later comparisons with `plan.whole` are fast if they compare an object with itself.
            formula = plan.whole
        if formula is not None and formula != before:
            yield Stage(index, formula, joining.intersection(plan.needed(formula)))
            joining, before = frozenset(), formula


@lru_cache(maxsize=1024)
def drafting(plan: ExecutionPlan, without: frozenset[Term]) -> tuple[Term, ...]:
    """Return the drafts that are composed before any stage verifies, except `without`."""
    formula = plan.part(set(plan.drafts) - without)
    return () if formula is None else plan.leaves(formula)


class VerificationOrder:
    """The positions that each stage has verified in one text, and the next stage. Keeps state.

    `rooms` has the number of tokens that fit into the context of each draft.
    """

    def __init__(self, plan: ExecutionPlan, rooms: Mapping[Term, int]) -> None:
        self.plan = plan
        self.rooms = rooms
        self.groups: Groups = plan.at_once if plan.chooses_lengths else plan.groups
        self.sizes: tuple[int, ...] = (1,) if plan.chooses_lengths else plan.sizes
        self.reached = [0] * len(self.groups)  # positions verified by each group

    @property
    def final(self) -> int:
        """The number of positions that all stages have verified."""
        return self.reached[-1]

    def begin(self, length: int, drafted: int, by_models: bool) -> None:
        """Let the terms verify each time that `drafted` tokens have been drafted.

        If `by_models` is True, models draft the tokens. Otherwise only proposers do.
        """
        self.groups = self.plan.groups if by_models else self.plan.at_once
        self.sizes = (*[1] * (len(self.groups) - 1), drafted + 1)
        self.reached = [length] * len(self.groups)

    def next(self, length: int, end: int) -> tuple[Stage, range]:
        """Return the stage that verifies a text of this length, and its positions before `end`.

        If several stages are due, return the last of them that has positions before `end` to
        verify. If no stage is due, because the text is closed or no proposer has a token, return
        the stage that would be due if the text were longer. Without this rule, the last token
        would itself decide which stages verify it, and the distribution would change (decision 13).
        """
        for assumed_length in count(length):
            stages = self.stages(assumed_length)
            due = [stage for stage in stages if self.due(stage) <= assumed_length]
            # After proposed tokens, a later stage may be due although the first stage is not. The
            # first stage then counts as due, too.
            if due and due[0] is not stages[0]:
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
        """Record that a stage has verified `verified` positions of a text of `length` tokens."""
        for i, reached in enumerate(self.reached):
            # A rejection drops tokens that earlier stages have verified, so these stages may have
            # reached past the end of the text.
            self.reached[i] = min(max(reached, verified if i <= stage.index else 0), length)

    def tokens_until_due(self, length: int) -> int:
        """Return the number of tokens that may be added before a stage is due."""
        return min(map(self.due, self.stages(length))) - length

    def rewind(self, place: int) -> None:
        """Record that every stage has verified the positions before `place`, and no more."""
        self.reached = [place] * len(self.reached)

    def stages(self, length: int) -> tuple[Stage, ...]:
        """Return the stages for a text of this length."""
        return stages_of(self.plan, self.groups, self.beyond(length))

    def due(self, stage: Stage) -> int:
        """Return the length at which a stage is due."""
        return self.reached[stage.index] + self.sizes[stage.index] - 1

    def beyond(self, length: int) -> frozenset[Term]:
        """Return the drafts whose contexts are too short for a text of this length."""
        return frozenset(t for t in self.plan.drafts if length >= self.rooms.get(t, math.inf))
