"""A loaded model, with the vocabulary of its tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from marith.scoring.free_memory import amount
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.weights.footprint import Footprint, room_for_texts
from marith.scoring.weights.layout.cpu_threads import threads_for
from marith.scoring.weights.placing import main_device
from marith.scoring.weights.shared_weights import nbytes, weights


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Checkpoint:
    """A loaded model of transformers, with its tokenizer and its limits.

    `backend` is the library that computes the model; None means transformers. `method` is the
    method by which the weights are quantised, if the model computes with them as they are.
    Subclasses for other libraries override the properties.
    """

    name: str
    model: Any
    vocabulary: Vocabulary
    context_length: int
    backend: str | None = None
    method: str | None = None

    @property
    def most_lanes(self) -> int | None:
        """The number of texts that the backend can read at once; None for any number."""
        return None

    @property
    def backend_device(self) -> str | None:
        """The device for other checkpoints of this backend; None if the backend chooses."""
        return None

    @property
    def summary(self) -> str:
        """The model's class, size in memory, number type and device, in words."""
        kind, dtype = type(self.model).__name__, self.dtype.removeprefix("torch.")
        numbers = f"{self.method} and {dtype}" if self.method else dtype
        return f"{kind}, {amount(self.nbytes)}, {numbers} on {self.device}"

    @property
    def device(self) -> torch.device:
        """The device on which the log-probabilities are computed."""
        return main_device(self.model)

    @property
    def dtype(self) -> str:
        """The number type of the model; an engine loads its other checkpoints in this type."""
        return str(self.model.dtype)

    @property
    def token_bytes(self) -> int | None:
        """The bytes of a token's keys and values; None if the configuration does not state them."""
        return Footprint.of(0, self.model.config.to_dict()).token_bytes(self.dtype)

    def room_for_texts(self, free: int) -> str:
        """Return in words the memory of texts, and the number of lanes that `free` bytes hold."""
        return room_for_texts(self.token_bytes, self.context_length, free)

    @property
    def weights(self) -> tuple[Tensor, ...]:
        """The weights that torch knows, each once."""
        return weights(self.model)

    @property
    def nbytes(self) -> int:
        """The number of bytes of the weights."""
        return nbytes(self.weights)

    @property
    def threads(self) -> int | None:
        """The number of torch's threads in a forward pass; None for torch's own number."""
        return threads_for(self.model)

    @property
    def rounds_coarsely(self) -> tuple[str, str] | None:
        """The rounding that a formula may amplify, and an exact alternative, in words; or None."""
        if self.model.dtype != torch.bfloat16:
            return None
        return "bfloat16 rounds coarsely", "dtype='float32' is exact"
