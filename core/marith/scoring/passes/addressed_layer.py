"""Layers of a transformers cache; the cache decides where their keys and values lie."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor
from transformers.cache_utils import CacheLayerMixin


class Addressed(Protocol):
    """A cache that decides where its layers write in each pass, and how much they read."""

    capacity: int
    _seen: int


class AddressedLayer(CacheLayerMixin):
    """A layer of a transformers cache. Its owner, the cache, decides where keys and values lie."""

    keys: Tensor
    values: Tensor

    def __init__(self, owner: Addressed) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
        self.owner = owner

    def get_seq_length(self) -> int:
        """Return the number of positions that the pass reads."""
        return self.owner._seen

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the number of positions that a mask covers, and the first of them."""
        return self.owner._seen, 0

    def get_max_length(self) -> int:
        """Return the number of positions of a row."""
        return self.owner.capacity

    def reset(self) -> None:
        """Let the next pass allocate new memory."""
        self.is_initialized = False
