"""A loaded model, with the vocabulary of its tokenizer and the number of its threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from marith.scoring.cpu_threads import SMALL, computing_with
from marith.scoring.free_memory import bytes_text
from marith.scoring.prompting.tokenizer import Vocabulary
from marith.scoring.weights.footprint import Footprint, room_for_texts
from marith.scoring.weights.layout.lean_modules import JointLinear
from marith.scoring.weights.placing import main_device
from marith.scoring.weights.shared_weights import nbytes, weights


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Checkpoint:
    """A loaded model of transformers, with its tokenizer and its limits.

    `backend` is the library that computes the model; None means transformers. `method` is the
    method by which the weights are quantised, if the model keeps them quantised in memory.
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
        return f"{kind}, {bytes_text(self.nbytes)}, {numbers} on {self.device}"

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
        """Return a phrase on the memory that texts take, and on the lanes that fit `free` bytes."""
        return room_for_texts(self.token_bytes, self.context_length, free)

    @property
    def weights(self) -> tuple[Tensor, ...]:
        """All weights that torch knows, each weight once."""
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


def threads_for(model: torch.nn.Module) -> int | None:
    """Return the number of threads of a forward pass: 1 for a small model, None for torch's number.

    The number of threads may change the last bits of a product, so it is chosen by a fixed rule on
    the sizes of matrices. A measurement could choose another number in each process. A matrix that
    joins several layers counts as several matrices. On four cores, a product with 176 thousand
    weights gains nothing from a second thread, and a product with 256 thousand weights gains a
    third. If other processes run too, more threads cost many times this gain.
    """
    joint = [one for one in model.modules() if isinstance(one, JointLinear)]
    parts = {id(one.linear.weight): one.parts for one in joint}
    weights = [weight for weight in model.parameters() if weight.ndim > 1]
    size = sum(weight.numel() for weight in weights)
    count = sum(parts.get(id(weight), 1) for weight in weights)
    on_cpu = all(weight.device.type == "cpu" for weight in model.parameters())
    return 1 if on_cpu and size < SMALL * count else None


@contextmanager
def threads_of(model: torch.nn.Module) -> Iterator[None]:
    """Let the calling thread compute with the number of threads that suits the model.

    At the end of the block the number is restored.
    """
    with computing_with(threads_for(model)):
        yield
