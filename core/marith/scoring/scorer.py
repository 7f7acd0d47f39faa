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
from marith.tensor_rows import Row


def moved_to(answers: list[Answer | None], device: torch.device) -> list[Answer | None]:
    """Move the rows of answers to a device. Each tensor is copied once."""
    copies: dict[int, Tensor] = {}
    for answer in answers:
        if answer is not None:
            for tensor, _ in answer.rows:
                # Answers of one pass are rows of one tensor.
                if id(tensor) not in copies:
                    copies[id(tensor)] = tensor.to(device)
            answer.rows = [(copies[id(tensor)], place) for tensor, place in answer.rows]
    return answers


# A term without a context length has room for this number of tokens.
UNBOUNDED = 1 << 30


class Scorer(Protocol):
    """A source of log-probabilities for terms of one kind.

    Its answers are a pure function of the spans: earlier questions change the cost of an answer,
    never the answer. So no other call is needed for a rejected draft, for backtracking after a ban,
    or for the next turn of a conversation. A long text may take several calls: None means that its
    lane is still being read, and that the caller must ask again.
    """

    def read(self, term: Any, prompt: Prompt) -> Reading:
        """Return the prompt as the term reads it. Raises RequestError if that is impossible."""
        ...

    @property
    def tokens_read(self) -> int:
        """The number of tokens that the scorer's language model has read; 0 without a model."""
        ...

    def tokens_left(self, reading: Reading) -> int:
        """Return the number of tokens that fit the context after a prompt."""
        ...

    def open(
        self, terms: Sequence[Any], reading: Reading, salt: str | None, loaded: Any
    ) -> RequestLane:
        """Return the lane of a request's text, which reads the prompt as `reading`.

        `terms` are the terms that read the text: one, or a model and its early exits. Only requests
        of the same `salt` share cached prefixes. `loaded` is the result of `load` for the terms
        when the request began. The lane keeps it, even if its files change.
        """
        ...

    def lane_text(self, lane: RequestLane, more: int) -> LaneText | None:
        """Return the text of a lane with `more` tokens after the prompt, as `memory` counts it.

        Return None if the lane caches nothing.
        """
        ...

    def prompt_text(self, lane: RequestLane) -> str:
        """Return the text of the prompt as the term reads it, with special tokens by name."""
        ...

    def uncached(self, lane: RequestLane) -> int:
        """Return how many of the engine's tokens of the prompt were not cached."""
        ...

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return an upper bound on the bytes of keys, values and states of all these texts."""
        ...

    def load(self, term: Any) -> object:
        """Load and return the data that only this term needs, such as an adapter.

        The data stays loaded while the caller holds it. Files that have changed are read again.
        """
        ...

    def score(self, spans: Sequence[Span]) -> Sequence[Answer | None]:
        """Return one answer for each span, in order; None while the lane is still being read."""
        ...

    def require_numbers(self, rows: Sequence[Row]) -> None:
        """Raise ModelError if a row of an answer is NaN, and drop what is cached for all texts.

        On an accelerator this waits for the device, so the engine calls it only after a step from
        which NaN came.
        """
        ...

    def forget(self) -> None:
        """Drop what is cached for all texts. The next question reads its text again."""
        ...

    def release(self, lane: RequestLane) -> None:
        """Release a lane: its text has ended, or is paused.

        A lane may be asked again, and then reads its text again as far as it is not cached.
        """
        ...


def bytes_needed(texts: Iterable[tuple[Scorer, LaneText]]) -> int:
    """Return an upper bound on the bytes of all texts, each in the cache of its scorer."""
    by_scorer: dict[Scorer, list[LaneText]] = {}
    for scorer, text in texts:
        by_scorer.setdefault(scorer, []).append(text)
    return sum(scorer.memory(planned) for scorer, planned in by_scorer.items())


class WithoutContext:
    """The base of scorers that read no tokens with a language model of their own."""

    tokens_read = 0

    def tokens_left(self, reading: Reading) -> int:
        """Return `UNBOUNDED`, because the scorer has no context length."""
        return UNBOUNDED

    def open(
        self, terms: Sequence[Any], reading: Reading, salt: str | None, loaded: Any
    ) -> RequestLane:
        """Return the lane of a request's text, which reads the prompt as `reading`."""
        return RequestLane(reading, salt)

    def lane_text(self, lane: RequestLane, more: int) -> LaneText | None:
        """Return None: nothing is cached."""
        return None

    def prompt_text(self, lane: RequestLane) -> str:
        """Return an empty text: the scorer reads no prompt with a model."""
        return ""

    def uncached(self, lane: RequestLane) -> int:
        """Return 0: the scorer reads no prompt with a model."""
        return 0

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return 0: nothing is cached."""
        return 0

    def load(self, term: Any) -> object:
        """Return None: nothing is loaded for one term only."""
        return None

    def require_numbers(self, rows: Sequence[Row]) -> None:
        """Do nothing: a classifier checks its own passes, and other rows are never NaN."""

    def forget(self) -> None:
        """Do nothing: nothing is cached."""

    def release(self, lane: RequestLane) -> None:
        """Do nothing: nothing is kept for a lane."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposed token, with its confidence.

    `confidence`, in (0, 1), is the token's estimated probability after the last `context` tokens.
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
