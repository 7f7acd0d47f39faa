"""Scorers that need no text: the uniform distribution, and positions, for schedules."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from marith.formula.tree.terms import Position, Uniform
from marith.request.prompt import Prompt
from marith.scoring.passes.questions import Answer, Span
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.scorer import WithoutContext
from marith.tensor_rows import rows_of


class UniformScorer(WithoutContext):
    """The uniform distribution over the tokens."""

    def __init__(self, vocabulary: Vocabulary, device: torch.device | str = "cpu") -> None:
        tokens = vocabulary.size - len(vocabulary.holes)
        row = torch.full((vocabulary.size,), -math.log(tokens))
        row[list(vocabulary.holes)] = -math.inf
        self._row = row.to(device)

    def read(self, term: Uniform, prompt: Prompt) -> tuple[int, ...]:
        """Return no tokens: the term reads nothing."""
        return ()

    def score(self, spans: Sequence[Span]) -> list[Answer]:
        """Return −log V for each of the V tokens, [count, vocab]."""
        return [Answer(rows_of(self._row.repeat(span.count, 1))) for span in spans]


class PositionScorer(WithoutContext):
    """The number of tokens of the continuation before each place. It needs no model."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = device

    def read(self, term: Position, prompt: Prompt) -> tuple[int, ...]:
        """Return no tokens: places are counted from the first token of the continuation."""
        return ()

    def score(self, spans: Sequence[Span]) -> list[Answer]:
        """Return places, [count, 1] in float32."""
        return [Answer(rows_of(self._places(span)[:, None])) for span in spans]

    def _places(self, span: Span) -> torch.Tensor:
        end = len(span.continuation) + 1
        return torch.arange(end - span.count, end, dtype=torch.float32, device=self.device)
