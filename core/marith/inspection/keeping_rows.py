"""Keeps the log-probabilities of every term at each position of a text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from marith.engine.jobs.queries import TextQuery
from marith.engine.prepare import Prepared
from marith.formula.tree.terms import Term
from marith.scoring.scorer import Scored
from marith.speculation.window import Block

Kept = TypeVar("Kept")


class KeepingRows(TextQuery[Kept]):
    """What `made` makes of the rows of each term [positions, vocab], which are on the CPU.

    The first row is for the token at `start` of the text.
    """

    def __init__(
        self,
        prepared: Prepared,
        continuation: Sequence[int],
        made: Callable[[Mapping[Term, Tensor]], Kept],
        keeper: object = None,
        start: int = 0,
    ) -> None:
        super().__init__(prepared, continuation, keeper, start)
        self._made = made
        self._answers: Mapping[Term, Scored] = {}
        self._kept: dict[Term, list[Tensor]] = defaultdict(list)

    def receive(self, answers: Mapping[Term, Scored]) -> list[Block]:
        """Keep the rows of every term, until they are copied."""
        self._answers = dict(answers)
        return super().receive(answers)

    def take(self, logprobs: Tensor, tokens: Tensor) -> None:
        """Copy the rows of these positions."""
        for term, scored in self._answers.items():
            self._kept[term].append(scored.logprobs.to("cpu", copy=True))
        self._answers = {}

    def result(self) -> Kept:
        """What is made of the rows of each term, joined."""
        return self._made({term: torch.cat(rows) for term, rows in self._kept.items()})
