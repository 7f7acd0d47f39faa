"""What the engine runs: something that asks for composed log-probabilities until it is done."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from torch import Tensor

from marith.engine.prepare import Prepared
from marith.formula.tree.terms import Prompted, Term
from marith.speculation.verify import Check, Verdict
from marith.speculation.window import Block


@dataclass(frozen=True, slots=True)
class Cost:
    """What one answer cost one job: passes it took part in, terms asked, candidates judged.

    `cached` counts for each language model's term the prompt tokens that were at hand.
    """

    passes: int
    calls: int
    judged: int
    cached: Mapping[Term, int]


class Job(Protocol):
    """Wants terms evaluated, receives them, checks what is composed of them, accepts tokens."""

    reader: Prepared

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits for it any more."""
        ...

    @property
    def done(self) -> bool:
        """Whether it needs no further step."""
        ...

    def wanted(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        """A continuation, and at how many of its last positions each term is to be evaluated."""
        ...

    def logprobs(
        self, terms: Collection[Term], count: int, answers: Mapping[Term, Tensor]
    ) -> dict[Term, Tensor]:
        """Of the last `count` positions, [count, vocab] each; `answers` are not received yet."""
        ...

    def receive(self, answers: Mapping[Term, Tensor], cost: Cost) -> Sequence[Block]:
        """Take in what was wanted, [count, vocab] each; what is to be composed of it."""
        ...

    def check(self, logprobs: Tensor) -> Check | None:
        """What to verify of the composed log-probabilities [positions, vocab] of all blocks."""
        ...

    def accept(self, verdict: Verdict) -> None:
        """Take the tokens that stand."""
        ...

    def fail(self, error: BaseException) -> None:
        """Tell the caller, and be done. Any thread may call it."""
        ...

    def orphan(self, error: BaseException) -> None:
        """The same in a forked child, whatever locks a thread of the parent held."""
        ...


def lane_of(job: Job, term: Term) -> Hashable:
    """Whose reading it is: this job's, of this term; what leaves a model early reads as it does."""
    if isinstance(term, Prompted) and term.exit_layer is not None:
        term = replace(term, exit_layer=None)
    return id(job), term
