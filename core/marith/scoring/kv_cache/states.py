"""What a model whose layers keep states has read of one text, in a cache of transformers' own."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer, DynamicSlidingWindowLayer

# Updates that write nothing in place: what they had before stays as it was.
_REPLACING = (DynamicLayer.update, DynamicSlidingWindowLayer.update)


@dataclass(slots=True, eq=False)
class State:
    """What a model keeps of a text, in a cache of transformers' own kinds of layers.

    `weights` names those that it was computed by. Who goes on from a `snapshot` copies it. Without
    a cache it is the state before a text.
    """

    weights: Hashable
    tokens: list[int]
    cache: Cache | None = None
    snapshot: bool = False

    def copied(self, snapshot: bool = False) -> State:
        """One that goes on by itself; keys and values that nobody writes to are shared."""
        layers = self.cache.layers if self.cache else []
        shared = {id(tensor): tensor for layer in layers for tensor in _replaced(layer)}
        return State(self.weights, [*self.tokens], copy.deepcopy(self.cache, shared), snapshot)

    def begins(self, weights: Hashable, text: list[int], most: int) -> bool:
        """Whether a text goes on from it, at most `most` of whose tokens may be known."""
        length = len(self.tokens)
        return self.weights == weights and length <= most and self.tokens == text[:length]

    @property
    def nbytes(self) -> int:
        """What its tensors weigh."""
        layers = self.cache.layers if self.cache else []
        return sum(tensor.nbytes for layer in layers for tensor in tensors(vars(layer)))


def _replaced(layer: Any) -> list[Tensor]:
    """The keys and values of a layer that makes new ones with each token."""
    if getattr(type(layer), "update", None) not in _REPLACING:
        return []
    return [kept for kept in (layer.keys, layer.values) if isinstance(kept, Tensor)]


def tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in an attribute of a layer."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from tensors(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from tensors(one)
