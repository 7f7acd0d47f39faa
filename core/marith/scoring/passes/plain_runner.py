"""A model whose state cannot be addressed by lanes: whole texts, one at a time."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch

from marith.errors import ModelError
from marith.scoring.memory import CacheLimit, Planned
from marith.scoring.passes.passes import Answer, Asked, ModelPasses
from marith.scoring.passes.probe import distance
from marith.tensor_rows import rows_of


class PlainRunner:
    """Reads each text from its first token on, and keeps nothing.

    Raises ModelError for a model that reads what comes after a position.
    """

    plain = True

    def __init__(self, passes: ModelPasses, context_length: int) -> None:
        self.passes = passes
        self._check_causal(min(6, context_length))

    @torch.inference_mode()
    def ask(self, questions: Sequence[Asked]) -> list[Answer | None]:
        """Every answer, a pass each."""
        return [self._answer(question) for question in questions]

    def memory(self, texts: Sequence[Planned]) -> int:
        """None: nothing is kept."""
        return 0

    def join(self, limit: CacheLimit) -> None:
        """Nothing is kept."""

    def release(self, owner: Hashable) -> None:
        """Nothing is kept."""

    def forget(self) -> None:
        """Nothing is kept."""

    def _answer(self, question: Asked) -> Answer:
        tokens, layers = question.tokens, question.exits
        ids = torch.tensor([tokens], device=self.passes.device)
        logits, early = self.passes.run(
            [question.adapter], question.count, layers, input_ids=ids, use_cache=False
        )
        number = self.passes.counted(len(tokens))
        exits = {
            layer: rows_of(self.passes.logprobs(out))
            for layer, out in zip(layers, early, strict=True)
        }
        return Answer(rows_of(self.passes.logprobs(logits)), exits, number)

    @torch.inference_mode()
    def _check_causal(self, length: int) -> None:
        text, half = [i % self.passes.vocab for i in range(1, length + 1)], length // 2
        whole = self._answer(Asked(0, text, length)).logprobs[:half]
        alone = self._answer(Asked(0, text[:half], half)).logprobs
        if distance(whole, alone) > 0.1:
            kind = type(self.passes.model).__name__
            raise ModelError(f"{kind} is no causal language model: it reads what comes after, too")
