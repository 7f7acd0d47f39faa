"""With how many OpenMP threads a model computes on a CPU, and how they wait."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch

from marith.scoring.weights.lean_modules import JointLinear
from marith.spinning import SPINS, TORCH_SPINS_LONG

SMALL = 2**18  # weights of a mean matrix, below which a second thread saves little
_SOFT = 1  # omp_pause_soft: what the program sees of the runtime stays as it is
_SPINNING = (
    f"; they spin for milliseconds while they wait, since torch was imported before marith: "
    f"GOMP_SPINCOUNT={SPINS} in the environment bounds it"
)


def threads_for(model: torch.nn.Module) -> int | None:
    """How many threads a pass takes: one for a small model, None for as many as torch has.

    A rule on the sizes of matrices, and no measurement: the number of threads may change the last
    bits of a product. Matrices that are one product count as what they are without it. On four
    cores a product with 176 thousand weights gains nothing by a second thread, one with 256
    thousand a third; beside other processes more threads cost many times it.
    """
    joint = [one for one in model.modules() if isinstance(one, JointLinear)]
    parts = {id(one.linear.weight): one.parts for one in joint}
    weights = [weight for weight in model.parameters() if weight.ndim > 1]
    size = sum(weight.numel() for weight in weights)
    count = sum(parts.get(id(weight), 1) for weight in weights)
    on_cpu = all(weight.device.type == "cpu" for weight in model.parameters())
    return 1 if on_cpu and size < SMALL * count else None


def take_threads(count: int | None) -> str:
    """Let the calling thread compute with so many; other threads keep their numbers.

    Returns in words with how many it computes, and why.
    """
    usual = torch.get_num_threads()  # torch sets the number once a thread, at its first use
    set_number = _of_the_runtime("omp_set_num_threads")
    if count is None:
        spinning = _SPINNING if usual > 1 and TORCH_SPINS_LONG else ""
        return f"torch's {usual} threads{spinning}"
    if set_number is None:
        return f"torch's {usual} threads: this OpenMP has no number for one thread alone"
    set_number(count)
    return f"{count} of torch's {usual} threads: the mean matrix has fewer than {SMALL} weights"


@contextmanager
def threads_of(model: torch.nn.Module) -> Iterator[None]:
    """Let the calling thread compute as suits the model, and afterwards as before."""
    with computing_with(threads_for(model)):
        yield


@contextmanager
def computing_with(count: int | None) -> Iterator[None]:
    """Let the calling thread compute with so many, and afterwards as before."""
    before = torch.get_num_threads()
    take_threads(count)
    try:
        yield
    finally:
        take_threads(before)


def dismiss_team() -> None:
    """End the workers of the calling thread; its next product makes them anew.

    The runtime counts an idle team like one that computes, and so lets the workers of every other
    thread sleep between two products. Takes less than a microsecond where there is no team.
    """
    dismissing()()


def dismissing() -> Callable[[], object]:
    """What ends the workers of the thread that calls it, in one call of the runtime."""
    pause = _of_the_runtime("omp_pause_resource_all")
    return bool if pause is None else partial(pause, _SOFT)


@cache
def _of_the_runtime(name: str) -> Callable[[int], Any] | None:
    """A function of OpenMP 5.0 (sections 3.2.1 and 3.2.44), which holds for the calling thread.

    None where the process has loaded no runtime that has it.
    """
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except (OSError, TypeError):
        return None
