"""A loaded model, with the vocabulary of its tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.weights.cpu_threads import threads_for
from marith.scoring.weights.footprint import Footprint, amount, room_for_texts
from marith.scoring.weights.placing import main_device
from marith.scoring.weights.shared_weights import nbytes, weights


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Checkpoint:
    """A model of transformers, and how it is used.

    `backend` computes it; None is transformers. `method` is how the files were quantised that it
    computes as they are. A checkpoint of another library says the same of its own.
    """

    name: str
    model: Any
    vocabulary: Vocabulary
    context_length: int
    backend: str | None = None
    method: str | None = None

    @property
    def most_lanes(self) -> int | None:
        """How many texts the backend reads at once; None for any number."""
        return None

    @property
    def backend_device(self) -> str | None:
        """Where others of its backend are loaded; None where the backend chooses."""
        return None

    @property
    def summary(self) -> str:
        """The model's class, size in memory, type of numbers and device."""
        kind, dtype = type(self.model).__name__, self.dtype.removeprefix("torch.")
        numbers = f"{self.method} and {dtype}" if self.method else dtype
        return f"{kind}, {amount(self.nbytes)}, {numbers} on {self.device}"

    @property
    def device(self) -> torch.device:
        """Where its log-probabilities are computed."""
        return main_device(self.model)

    @property
    def dtype(self) -> str:
        """The type of numbers that other checkpoints are loaded in that stand beside it."""
        return str(self.model.dtype)

    @property
    def token_bytes(self) -> int | None:
        """What the keys and values of a token take, if its configuration states it."""
        return Footprint.of(0, self.model.config.to_dict()).token_bytes(self.dtype)

    def room_for_texts(self, free: int) -> str:
        """In words what texts take, and how many lanes of a whole context so much memory holds."""
        return room_for_texts(self.token_bytes, self.context_length, free)

    @property
    def weights(self) -> tuple[Tensor, ...]:
        """Every weight that torch knows, each once."""
        return weights(self.model)

    @property
    def nbytes(self) -> int:
        """What its weights weigh."""
        return nbytes(self.weights)

    @property
    def threads(self) -> int | None:
        """How many threads of torch's a pass takes; None for as many as torch has."""
        return threads_for(self.model)

    @property
    def rounds_coarsely(self) -> tuple[str, str] | None:
        """What rounds so that a formula may enlarge it, and what is exact instead; None if not."""
        if self.model.dtype != torch.bfloat16:
            return None
        return "bfloat16 rounds coarsely", "dtype='float32' is exact"
