"""The interface between the engine and the scorers: spans in, log-probabilities out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from marith.request.prompt import Prompt
from marith.scoring.lane_text import LaneText
from marith.scoring.passes.questions import Answer, Reading, RequestLane, Span


def moved_to(answers: list[Answer | None], device: torch.device) -> list[Answer | None]:
    """Move the rows of answers to a device. Each tensor is copied once."""
    copies: dict[int, Tensor] = {}
    for answer in answers:
        if answer is not None:
            for tensor, _ in answer.rows:
                if id(tensor) not in copies:
                    copies[id(tensor)] = tensor.to(device)
            answer.rows = [(copies[id(tensor)], place) for tensor, place in answer.rows]
    return answers


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

    def open(
        self, terms: Sequence[Any], reading: Reading, salt: str | None, loaded: Any
    ) -> RequestLane:
        """Return the lane of a request's text, which reads the prompt as `reading`.

        `terms` are the terms that read the text: one, or a model and its early exits. Only requests
        of the same `salt` share cached prefixes. `loaded` is what the scorer loaded for the terms
        when the request began: the lane keeps it, even if its files are written again.
        """
        ...

    def lane_text(self, lane: RequestLane, more: int) -> LaneText | None:
        """Return the text of a lane with `more` tokens after the prompt, as `memory` counts it.

        Return None if the lane holds nothing.
        """
        ...

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return the most bytes of keys, values and states that these texts take together."""
        ...

    def load(self, term: Any) -> object:
        """Load and return what only this term needs. It stays loaded while the caller holds it.

        Files that were written again are read again.
        """
        ...

    def score(self, spans: Sequence[Span]) -> Sequence[Answer | None]:
        """Return one answer for each span, in order; None while the lane is still being read."""
        ...

    def release(self, lane: RequestLane) -> None:
        """Release a lane. It is not asked again."""
        ...


def bytes_needed(texts: Iterable[tuple[Scorer, LaneText]]) -> int:
    """Return the most bytes that texts take together, each in the cache of its scorer."""
    by_scorer: dict[Scorer, list[LaneText]] = {}
    for scorer, text in texts:
        by_scorer.setdefault(scorer, []).append(text)
    return sum(scorer.memory(planned) for scorer, planned in by_scorer.items())


class WithoutContext:
    """The base of scorers that read no tokens with a language model of their own."""

    tokens_read = 0

    def tokens_left(self, reading: Reading) -> int:
        """Return a number of tokens that no request asks for."""
        return UNBOUNDED

    def open(
        self, terms: Sequence[Any], reading: Reading, salt: str | None, loaded: Any
    ) -> RequestLane:
        """Return the lane of a request's text, which reads the prompt as `reading`."""
        return RequestLane(reading, salt)

    def lane_text(self, lane: RequestLane, more: int) -> LaneText | None:
        """Return None: nothing is held."""
        return None

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return 0: nothing is held."""
        return 0

    def load(self, term: Any) -> object:
        """Return None: nothing is loaded for one term only."""
        return None

    def release(self, lane: RequestLane) -> None:
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
