"""Set the number of OpenMP threads with which a thread computes, and end idle OpenMP threads."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch

from marith.openmp import SPINS, TORCH_SPINS_LONG

# If a model's matrices have fewer weights than this on average, a second thread saves little.
SMALL = 2**18
# This is omp_pause_soft, with which the runtime keeps its settings.
_SOFT = 1
_SPINNING = (
    f"; waiting threads spin for milliseconds, because torch was imported before marith; set "
    f"GOMP_SPINCOUNT={SPINS} in the environment to limit it"
)


def take_threads(count: int | None) -> str:
    """Let the calling thread compute with `count` threads. Other threads are not affected.

    None leaves torch's own number. Return a phrase with the number of threads and the reason.
    """
    # When a thread uses torch for the first time, torch sets the thread's number of OpenMP threads.
    # This call may be the first use, so it comes before the change.
    usual = torch.get_num_threads()
    set_number = _of_the_runtime("omp_set_num_threads")
    if count is None:
        spinning = _SPINNING if usual > 1 and TORCH_SPINS_LONG else ""
        return f"torch's {usual} threads{spinning}"
    if set_number is None:
        return f"torch's {usual} threads: this OpenMP cannot set the number of one thread"
    set_number(count)
    return f"{count} of torch's {usual} threads: the mean matrix has fewer than {SMALL} weights"


@contextmanager
def computing_with(count: int | None) -> Iterator[None]:
    """Let the calling thread compute with `count` threads.

    At the end of the block the number is restored.
    """
    before = torch.get_num_threads()
    take_threads(count)
    try:
        yield
    finally:
        take_threads(before)


def dismiss_team() -> None:
    """End the worker threads of the calling thread.

    The next matrix product of the calling thread starts new workers. The runtime counts an idle
    team like a team that computes. While there is an idle team, the runtime lets the workers of all
    other threads sleep between two products. The call takes less than a microsecond if there is no
    team.
    """
    dismissing()()


def dismissing() -> Callable[[], object]:
    """Return a function that ends the OpenMP workers of the thread that calls the function."""
    pause = _of_the_runtime("omp_pause_resource_all")
    return bool if pause is None else partial(pause, _SOFT)


@cache
def _of_the_runtime(name: str) -> Callable[[int], Any] | None:
    """Return a function of OpenMP 5.0 (sections 3.2.1 and 3.2.44) that acts on the calling thread.

    None if the process has loaded no runtime with this function.
    """
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except (OSError, TypeError):
        return None
