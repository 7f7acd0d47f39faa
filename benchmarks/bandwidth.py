"""The floor of a token's time: every weight is read from memory once for each token."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from benchmarks.benchmark_results import Result

NUMBERS = 2**27  # 512 MiB of float32: more than any cache of a processor holds
_TURNS = 8


@dataclass(frozen=True, slots=True)
class Floor:
    """Bytes of weights that a token needs, bytes read in a second, and what follows from them."""

    weight_bytes: int
    bytes_per_second: float
    milliseconds: float

    @classmethod
    def of(cls, model: Any, speed: float) -> Floor:
        """Return the floor of a model's weights, for a number of bytes read in a second."""
        weights = weight_bytes(model)
        return cls(weights, speed, 1e3 * weights / speed)


def weight_bytes(model: nn.Module) -> int:
    """The linear weights, the head's included, each once; of the embedding a token reads a row."""
    linears = (module for module in model.modules() if isinstance(module, nn.Linear | Conv1D))
    weights = {linear.weight for linear in linears}
    return sum(weight.numel() * weight.element_size() for weight in weights)


def bytes_per_second() -> float:
    """Return how fast memory is read: the best of several sums over more than a processor caches.

    All threads read. Other work on the machine makes reading slower, and nothing makes it faster,
    so the best measurement is nearest.
    """
    numbers = torch.ones(NUMBERS)
    best = float("inf")
    for _ in range(_TURNS):
        started = time.perf_counter()
        numbers.sum()
        best = min(best, time.perf_counter() - started)
    return numbers.numel() * numbers.element_size() / best


def with_floor(result: Result, floor: Floor | None) -> Result:
    """Return a result with its share of the floor, if it is the time of one request's token."""
    if floor is None or result.section != "terms":
        return result
    return replace(result, floor_share=floor.milliseconds / result.milliseconds)
