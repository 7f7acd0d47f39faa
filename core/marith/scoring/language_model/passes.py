"""What passes of any model have in common: how they are counted, and logits as probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from marith.errors import ModelError


class Passes:
    """Counts the passes of a causal language model, and the tokens that it reads.

    `vocab` is how many tokens there are, `holes` are numbers below it that are no tokens, and
    impossible. `name` is what messages call the model.
    """

    def __init__(self, vocab: int, name: str, holes: Sequence[int], device: torch.device) -> None:
        self.vocab, self.name, self.device = vocab, name, device
        self.count = self.tokens_read = 0
        self._holes = torch.tensor(holes, dtype=torch.long).to(device)

    def counted(self, tokens: int) -> frozenset[int]:
        """The number of the pass that has just read so many tokens."""
        self.count += 1
        self.tokens_read += tokens
        return frozenset((self.count,))

    def forget_counts(self) -> None:
        """Begin to count anew: what was tried out is no work for anyone."""
        self.count = self.tokens_read = 0

    def logprobs(self, logits: Tensor) -> Tensor:
        """[rows, count, vocab] → [rows · count, vocab], in float32 whatever the model computes in.

        Raises ModelError for what is not a number.
        """
        logits = logits[..., : self.vocab].float().flatten(0, -2)
        if len(self._holes):
            logits = logits.index_fill(-1, self._holes, -math.inf)
        logprobs = torch.log_softmax(logits, dim=-1)
        if bool(logprobs[:, -1].isnan().any()):  # one that is not a number makes all of its row so
            raise ModelError("the model computed what is not a number (NaN)")
        return logprobs
