"""The interface between the engine and the scorers: spans in, log-probabilities out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor

from marith.formula.tree.terms import Term
from marith.request.prompt import Prompt
from marith.scoring.lane_text import LaneText
from marith.tensor_rows import Row, gather, rows_of

Reading: TypeAlias = "tuple[int, ...] | str"


@dataclass(slots=True)
class Span:
    """The last `count` positions of a lane, to be scored.

    The first position follows all but the last `count − 1` tokens of the continuation. The last
    position follows the whole continuation. `reading` is the prompt as the term reads it. `lane`
    names the owner of the reading: a scorer may keep state for a lane, but its answers do not
    depend on the lane. `candidates` are the tokens that a classifier evaluates, a list for each
    position. Cached prefixes of the text serve only spans of the same `salt`. `loaded` is what the
    scorer loaded for the term when the request began, such as an adapter; None for what it loads
    now.
    """

    term: Term
    lane: Hashable
    reading: Reading
    continuation: Sequence[int]
    count: int = 1
    candidates: Sequence[Sequence[int]] | None = None
    salt: str | None = None
    loaded: object = None


@dataclass(slots=True)
class Scored:
    """A span's log-probabilities, one row [vocab] for each position, and their cost.

    The rows of spans that were scored together are rows of one tensor. `passes` are the numbers of
    the forward passes that the span took part in. `cached` counts the prompt's tokens whose keys
    and values were cached. `judged` counts the candidates that a classifier evaluated.
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
        """Make an answer of all rows of a tensor [count, vocab]."""
        return cls(rows_of(logprobs), passes, cached, judged)

    @property
    def logprobs(self) -> Tensor:
        """The rows as one tensor, [count, vocab]."""
        return gather(self.rows)


def moved_to(answers: list[Scored | None], device: torch.device) -> list[Scored | None]:
    """Move the rows of answers to a device. Each tensor is copied once."""
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
    """The most that a lane will hold: a prompt as its term reads it, and `more` tokens after it.

    A prefix that prompts of the same `salt` have in common is held once.
    """

    term: Term
    reading: Reading
    more: int
    salt: str | None = None


UNBOUNDED = 1 << 30  # the room, in tokens, of a term without a context length


class Scorer(Protocol):
    """Log-probabilities of terms of one kind.

    A pure function of its spans: earlier questions change the cost of an answer, never the answer.
    So the scorer needs no other call for a rejected draft, for backtracking after a ban, or for the
    next turn of a conversation. A long text may take several calls: None means that its lane is
    still being read, and that the caller must ask again.
    """

    def read(self, term: Any, prompt: Prompt) -> Reading:
        """Return the prompt as the term reads it. Raises RequestError if that is impossible."""
        ...

    @property
    def tokens_read(self) -> int:
        """The number of tokens that its language model has read; 0 without a model."""
        ...

    def tokens_left(self, reading: Reading) -> int:
        """Return the number of tokens that its context still holds after a prompt."""
        ...

    def lane_text(self, demand: Demand) -> LaneText | None:
        """Return the text of a lane as `memory` counts it; None if the lane holds nothing."""
        ...

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return the most bytes of keys, values and states that these texts take together."""
        ...

    def loaded(self, term: Any) -> object:
        """Load and return what only this term needs. It stays loaded while the caller holds it.

        Files that were written again are read again.
        """
        ...

    def score(self, spans: Sequence[Span]) -> Sequence[Scored | None]:
        """Return one answer for each span, in order; None while the lane is still being read."""
        ...

    def release(self, lane: Hashable) -> None:
        """Release a lane. It is not asked again."""
        ...


class WithoutContext:
    """The base of scorers that read no tokens with a language model of their own."""

    tokens_read = 0

    def tokens_left(self, reading: Reading) -> int:
        """Return a number of tokens that no request asks for."""
        return UNBOUNDED

    def lane_text(self, demand: Demand) -> LaneText | None:
        """Return None: nothing is held."""
        return None

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return 0: nothing is held."""
        return 0

    def loaded(self, term: Any) -> object:
        """Return None: nothing is loaded for one term only."""
        return None

    def release(self, lane: Hashable) -> None:
        """Do nothing: nothing is kept for a lane."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed token, with its confidence.

    `confidence`, in (0, 1), is the estimate of a context of `context` tokens.
    """

    token: int
    confidence: float
    context: int


@runtime_checkable
class Proposer(Protocol):
    """A scorer that can also propose tokens, at almost no cost."""

    def propose(self, span: Span, limit: int) -> Sequence[Proposal]:
        """Return at most `limit` tokens that may follow the span, each given its predecessors."""
        ...
