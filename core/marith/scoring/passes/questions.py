"""Questions about the texts of requests, and their answers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor

from marith.formula.tree.terms import Term
from marith.scoring.weights.lora_files import Adapter
from marith.tensor_rows import Row, gather

Reading: TypeAlias = "tuple[int, ...] | str"


@dataclass(slots=True, eq=False, weakref_slot=True)
class RequestLane:
    """The text of one request as a term reads it. The text begins with the prompt, `reading`.

    A scorer opens the lane once, and may cache state for it. The state changes the cost of an
    answer, never the answer. Texts of the same `key` may share cached prefixes: the key names the
    weights that compute them, and the salt of the request. `adapter` changes the weights that read
    the text. `exits` are inner layers whose log-probabilities are wanted too.

    `cached` is the number of tokens that were cached when the text was first read; None before. A
    text that is paused is read again later, and what it has read itself does not count.
    """

    reading: Reading
    key: Hashable = None
    adapter: Adapter | None = None
    exits: tuple[int, ...] = ()
    cached: int | None = field(default=None, init=False)

    @property
    def prompt(self) -> tuple[int, ...]:
        """The prompt as tokens, for a language model."""
        assert not isinstance(self.reading, str)
        return self.reading

    @property
    def shifted_from(self) -> int:
        """The position from which the vectors of the adapter are added."""
        return 0 if self.adapter is None else self.adapter.shifted_from(len(self.prompt))


def note_cached(lane: Hashable, answer: Answer | None) -> None:
    """Note how many tokens were cached when a lane was first read.

    `answer` may be unfinished if the lane is released.
    """
    if isinstance(lane, RequestLane) and lane.cached is None and answer and answer.passes:
        lane.cached = answer.cached


def shifted_after(lane: RequestLane, read: int, ids: Tensor) -> Tensor | None:
    """Return which of the tokens `ids` [1, length] get vectors; None if all of them do.

    The tokens follow the first `read` tokens of the lane's text.
    """
    start = lane.shifted_from
    return None if start <= read else torch.arange(ids.shape[1])[None] + read >= start


@dataclass(slots=True)
class Span:
    """A question: what are the log-probabilities at the last `count` positions of a lane?

    The last position follows the whole continuation. The first position follows the continuation
    without its last `count − 1` tokens. A continuation that is the same object in two questions of
    a lane has only grown at its end. `candidates` are the tokens that a classifier evaluates, a
    list for each position.
    """

    term: Term
    lane: RequestLane
    continuation: Sequence[int]
    count: int = 1
    candidates: Sequence[Sequence[int]] | None = None

    @property
    def tokens(self) -> list[int]:
        """All tokens of the text, for a language model."""
        return [*self.lane.prompt, *self.continuation]


@dataclass(slots=True)
class Answer:
    """Log-probabilities, one row [vocab] for each position, and their cost.

    The rows of texts that were read together are rows of one tensor. `exits` has the rows of early
    exits, by layer. `passes` are the numbers of the forward passes that read the text. `cached`
    counts the prompt's tokens whose keys and values were cached. `judged` counts the candidates
    that a classifier evaluated.
    """

    rows: Sequence[Row]
    passes: frozenset[int] = frozenset()
    cached: int = 0
    exits: dict[int, Sequence[Row]] = field(default_factory=dict)
    judged: int = 0

    @property
    def logprobs(self) -> Tensor:
        """The rows as one tensor, [count, vocab]."""
        return gather(self.rows)
