"""What the engine runs: something that asks for composed log-probabilities until it is done."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from torch import Tensor

from marith.decoding.speculation import Trial, Verdict
from marith.engine.positions import Block
from marith.engine.reader import Reader
from marith.formula.terms import Prompted, Term


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
    """Asks terms about positions, hears them, has what they said composed, and takes tokens."""

    reader: Reader

    @property
    def abandoned(self) -> bool:
        """Whether nobody waits for it any more."""
        ...

    @property
    def done(self) -> bool:
        """Whether it needs no further step."""
        ...

    def asks(self) -> tuple[Sequence[int], Mapping[Term, int]]:
        """A continuation, and how many of its last positions each term should speak of."""
        ...

    def spoken(
        self, terms: Iterable[Term], count: int, heard: Mapping[Term, Tensor]
    ) -> dict[Term, Tensor]:
        """What terms have said of the last `count` positions, `heard` just now included."""
        ...

    def hear(self, answers: Mapping[Term, Tensor], cost: Cost) -> None:
        """What the terms say of what was asked, [count, vocab] each."""
        ...

    def blocks(self) -> Sequence[Block]:
        """What is to be composed of it."""
        ...

    def compose(self, logprobs: Tensor) -> Trial | None:
        """The composed log-probabilities [positions, vocab] of all blocks; what to draw of them."""
        ...

    def settle(self, verdict: Verdict) -> None:
        """The tokens that stand."""
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
