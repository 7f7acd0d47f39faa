"""Keeps the log-probabilities of every term at each position of a text."""

from __future__ import annotations

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
        start: int = 0,
    ) -> None:
        super().__init__(prepared, continuation, start)
        self._made = made
        self._answers: Mapping[Term, Scored] = {}
        self._kept: dict[Term, Tensor] = {}
        self._count = len(continuation) - start
        self._taken = 0

    def receive(self, answers: Mapping[Term, Scored]) -> list[Block]:
        """Keep the rows of every term, until they are copied."""
        self._answers = dict(answers)
        return super().receive(answers)

    def take(self, logprobs: Tensor, tokens: Tensor) -> None:
        """Copy the rows of these positions."""
        end = self._taken + len(tokens)
        for term, scored in self._answers.items():
            rows = scored.logprobs
            if term not in self._kept:  # whole at once: to join parts would take them twice
                self._kept[term] = torch.empty(self._count, rows.shape[-1], dtype=rows.dtype)
            self._kept[term][self._taken : end] = rows
        self._taken = end
        self._answers = {}

    def result(self) -> Kept:
        """What is made of the rows of each term."""
        return self._made(self._kept)
