"""How long a text is, as a scorer: what schedules are made of."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch

from marith.formula.tree.terms import Position
from marith.request.prompt import Prompt
from marith.scoring.scorer import Scored, Span, WithoutContext


class PositionScorer(WithoutContext):
    """The number of tokens before each place, which needs no model."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = device

    def read(self, term: Position, prompt: Prompt) -> tuple[int, ...]:
        """Nothing is read: places are counted from the continuation's first."""
        return ()

    def loaded(self, term: Position) -> None:
        """Nothing is needed."""

    def score(self, spans: Sequence[Span]) -> list[Scored]:
        """Places, [count, 1] in float32."""
        return [Scored.of(self._places(span)[:, None]) for span in spans]

    def release(self, lane: Hashable) -> None:
        """Nothing is kept."""

    def _places(self, span: Span) -> torch.Tensor:
        end = len(span.continuation) + 1
        return torch.arange(end - span.count, end, dtype=torch.float32, device=self.device)
