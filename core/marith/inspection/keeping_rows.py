"""Keeps what every term says at each position of a text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from marith.engine.jobs.queries import TextQuery
from marith.engine.prepare import Prepared
from marith.formula.tree.terms import Term
from marith.scoring.scorer import Scored
from marith.speculation.window import Block


class KeepingRows(TextQuery[Mapping[Term, Tensor]]):
    """The rows of each term [positions, vocab] on the CPU, from a place of the text on."""

    def __init__(
        self,
        prepared: Prepared,
        continuation: Sequence[int],
        keeper: object = None,
        start: int = 0,
    ) -> None:
        super().__init__(prepared, continuation, keeper, start)
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

    def result(self) -> Mapping[Term, Tensor]:
        """The rows of each term, joined."""
        return {term: torch.cat(rows) for term, rows in self._kept.items()}
