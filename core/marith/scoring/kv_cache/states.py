"""What a model whose layers keep states has read of one text, in a cache of transformers' own."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(slots=True, eq=False)
class State:
    """What a model keeps of a text, in a cache of transformers' own kinds of layers.

    `weights` names those that it was computed by. Who goes on from a `snapshot` copies it. Without
    a cache it is the state before a text.
    """

    weights: Hashable
    tokens: list[int]
    cache: Any = None
    snapshot: bool = False

    def copied(self, snapshot: bool = False) -> State:
        """One of its own memory."""
        return State(self.weights, [*self.tokens], copy.deepcopy(self.cache), snapshot)

    def begins(self, weights: Hashable, text: list[int], most: int) -> bool:
        """Whether a text goes on from it, at most `most` of whose tokens may be known."""
        length = len(self.tokens)
        return self.weights == weights and length <= most and self.tokens == text[:length]

    @property
    def nbytes(self) -> int:
        """What its tensors weigh."""
        return sum(tensor.nbytes for layer in self.cache.layers for tensor in _tensors(vars(layer)))


def _tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in an attribute of a layer."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _tensors(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors(one)
