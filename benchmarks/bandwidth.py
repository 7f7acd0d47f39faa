"""The shortest possible time of a token: every weight is read from memory once."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from benchmarks.benchmark_results import Result

# 512 MiB of float32 are more than any cache of a processor holds.
NUMBERS = 2**27
_TURNS = 8


@dataclass(frozen=True, slots=True)
class Floor:
    """The bytes of weights that a token reads, and the bytes that memory gives in a second."""

    weight_bytes: int
    bytes_per_second: float
    milliseconds: float

    @classmethod
    def of(cls, model: Any, speed: float) -> Floor:
        """Return the floor of a model's weights at a rate of bytes per second."""
        weights = weight_bytes(model)
        return cls(weights, speed, 1e3 * weights / speed)


def weight_bytes(model: nn.Module) -> int:
    """Return the bytes of all linear weights, with the head, each counted once.

    The embedding does not count, because a token reads one row of it.
    """
    linears = (module for module in model.modules() if isinstance(module, nn.Linear | Conv1D))
    weights = {linear.weight for linear in linears}
    return sum(weight.numel() * weight.element_size() for weight in weights)


def bytes_per_second() -> float:
    """Return how fast memory is read: the best of several sums over more than any cache holds.

    All threads read. Other work on the machine makes reading slower and never faster, so the best
    measurement is the nearest to the truth.
    """
    numbers = torch.ones(NUMBERS)
    best = float("inf")
    for _ in range(_TURNS):
        started = time.perf_counter()
        numbers.sum()
        best = min(best, time.perf_counter() - started)
    return numbers.numel() * numbers.element_size() / best


def with_floor(result: Result, floor: Floor | None) -> Result:
    """Return a result with its share of the floor, if it is the time of a token of one request."""
    if floor is None or result.section != "terms":
        return result
    return replace(result, floor_share=floor.milliseconds / result.milliseconds)
