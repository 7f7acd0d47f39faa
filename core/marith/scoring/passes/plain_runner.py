"""A model without a cache: each text is read whole, in a pass of its own."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch

from marith.errors import ModelError
from marith.formula.meaning.binding import BARE_MODEL
from marith.scoring.cache_limit import CacheLimit
from marith.scoring.lane_text import LaneText
from marith.scoring.passes.passes import ModelPasses, Runner
from marith.scoring.passes.probe import distance
from marith.scoring.passes.questions import Answer, RequestLane, Span, shifted_after
from marith.tensor_rows import Row, rows_of


class PlainRunner(Runner):
    """A runner that reads each text from its first token, and caches nothing.

    Raises ModelError for a model whose output at a position depends on later tokens.
    """

    plain = True
    passes: ModelPasses

    def __init__(self, passes: ModelPasses, context_length: int) -> None:
        self.passes = passes
        self._check_causal(min(6, context_length))

    @torch.inference_mode()
    def ask(self, questions: Sequence[Span]) -> list[Answer | None]:
        """Answer each question in a pass of its own."""
        return [self._answer(question) for question in questions]

    def memory(self, texts: Sequence[LaneText]) -> int:
        """Return 0: nothing is cached."""
        return 0

    def join(self, limit: CacheLimit) -> None:
        """Do nothing: nothing is cached."""

    def release(self, owner: Hashable) -> None:
        """Do nothing: nothing is cached."""

    def forget(self) -> None:
        """Do nothing: nothing is cached."""

    def _answer(self, question: Span) -> Answer:
        lane = question.lane
        tokens, layers = question.tokens, lane.exits
        ids = torch.tensor([tokens], device=self.passes.device)
        shifted = shifted_after(lane, 0, ids)
        logits, early = self.passes.run(
            [lane.adapter], question.count, layers, shifted=shifted, input_ids=ids
        )
        number = self.passes.counted(len(tokens))
        exits: dict[int, Sequence[Row]] = {
            layer: rows_of(self.passes.logprobs(out))
            for layer, out in zip(layers, early, strict=True)
        }
        return Answer(rows_of(self.passes.logprobs(logits)), number, exits=exits)

    @torch.inference_mode()
    def _check_causal(self, length: int) -> None:
        text, half = [i % self.passes.vocab for i in range(1, length + 1)], length // 2
        lane = RequestLane(())
        whole = self._answer(Span(BARE_MODEL, lane, text, length)).logprobs[:half]
        alone = self._answer(Span(BARE_MODEL, lane, text[:half], half)).logprobs
        # The two results of a causal model differ by rounding only.
        if distance(whole, alone) > 0.1:
            kind = type(self.passes.model).__name__
            raise ModelError(f"{kind} is not a causal language model: it reads later tokens, too")
