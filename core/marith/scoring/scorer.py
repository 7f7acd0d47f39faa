"""What the engine asks, and what comes back: spans in, log-probabilities out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor

from marith.formula.tree.terms import Term
from marith.request.prompt import Prompt
from marith.scoring.memory import Planned
from marith.tensor_rows import Row, gather, rows_of

Reading: TypeAlias = "tuple[int, ...] | str"


@dataclass(slots=True)
class Span:
    """The last `count` positions of a lane, to be scored.

    The first asked position follows all but the last `count − 1` tokens of the continuation, the
    last follows the whole of it. `reading` is the prompt as the term reads it. `lane` says whose
    reading this is: a scorer may keep state under it, but never answers differently for it.
    `candidates` are the tokens that a classifier evaluates, for each position its own. What is kept
    of its text serves spans of the same `salt` alone.
    """

    term: Term
    lane: Hashable
    reading: Reading
    continuation: Sequence[int]
    count: int = 1
    candidates: Sequence[Sequence[int]] | None = None
    salt: str | None = None


@dataclass(slots=True)
class Scored:
    """A span's log-probabilities, one row [vocab] a position, and what they cost.

    Spans that were scored together have rows of one tensor. `passes` numbers the forward passes
    that the span took part in; `cached` counts the prompt's tokens whose keys and values were at
    hand; `judged` counts the candidates that a classifier evaluated.
    """

    rows: Sequence[Row]
    passes: frozenset[int] = frozenset()
    cached: int = 0
    judged: int = 0

    @classmethod
    def of(
        cls,
        logprobs: Tensor,
        passes: frozenset[int] = frozenset(),
        cached: int = 0,
        judged: int = 0,
    ) -> Scored:
        """All rows of a tensor [count, vocab]."""
        return cls(rows_of(logprobs), passes, cached, judged)

    @property
    def logprobs(self) -> Tensor:
        """The rows as one tensor, [count, vocab]."""
        return gather(self.rows)


def moved_to(answers: list[Scored | None], device: torch.device) -> list[Scored | None]:
    """Copy the rows of answers to a device: each tensor once."""
    copies: dict[int, Tensor] = {}
    for answer in answers:
        if answer is not None:
            for tensor, _ in answer.rows:
                if id(tensor) not in copies:
                    copies[id(tensor)] = tensor.to(device)
            answer.rows = [(copies[id(tensor)], place) for tensor, place in answer.rows]
    return answers


@dataclass(frozen=True, slots=True)
class Demand:
    """What a lane will hold at most: a prompt as its term reads it, and so many tokens more.

    What prompts of the same `salt` have in common is held once.
    """

    term: Term
    reading: Reading
    more: int
    salt: str | None = None


UNBOUNDED = 1 << 30  # tokens that a term without a context of its own has room for


class Scorer(Protocol):
    """Log-probabilities of terms of one kind.

    A pure function of its spans: what was asked before changes the cost of an answer, never the
    answer. A refused draft, a backtracking constraint and a second turn are the same call. A long
    text may take several: None says that its lane is still reading, and to ask again.
    """

    def read(self, term: Any, prompt: Prompt) -> Reading:
        """The prompt as the term reads it. Raises RequestError for what it cannot read."""
        ...

    @property
    def tokens_read(self) -> int:
        """How many tokens its language model has read in all passes; 0 for what has no model."""
        ...

    def room(self, reading: Reading) -> int:
        """How many tokens its context still holds after a prompt."""
        ...

    def planned(self, demand: Demand) -> Planned | None:
        """The text of a lane, as `memory` counts it; None where it holds nothing."""
        ...

    def memory(self, texts: Sequence[Planned]) -> int:
        """How many bytes of keys, values and states these texts take together at most."""
        ...

    def loaded(self, term: Any) -> object:
        """What is loaded for the term alone: it stays for as long as the asker holds it."""
        ...

    def score(self, spans: Sequence[Span]) -> Sequence[Scored | None]:
        """One answer a span, in order."""
        ...

    def release(self, lane: Hashable) -> None:
        """Let a lane go: it is asked no more."""
        ...


class WithoutContext:
    """Scorers that read no tokens by a language model of their own."""

    tokens_read = 0

    def room(self, reading: Reading) -> int:
        """As much as anyone asks for."""
        return UNBOUNDED

    def planned(self, demand: Demand) -> Planned | None:
        """Nothing is held."""
        return None

    def memory(self, texts: Sequence[Planned]) -> int:
        """None."""
        return 0

    def loaded(self, term: Any) -> object:
        """Nothing is loaded for a term alone."""
        return None

    def release(self, lane: Hashable) -> None:
        """Nothing is kept of a lane."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A token that may follow, and how sure (in (0, 1)) a context of so many tokens is of it."""

    token: int
    confidence: float
    context: int


@runtime_checkable
class Proposer(Protocol):
    """A scorer that can also propose tokens outright, at next to no cost."""

    def propose(self, span: Span, limit: int) -> Sequence[Proposal]:
        """At most `limit` tokens that may follow the span's text, each given those before it."""
        ...
