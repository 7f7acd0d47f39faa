"""Which threads compute, and with how many OpenMP threads: never a caller's own thread.

OpenMP keeps a team of worker threads for each thread that has ever computed. The workers spin for a
while after each product, so a second team slows the first one down (2.5 times on two cores); and
after a fork, a thread that had a team waits for it for ever. So a model computes on the engine's
thread, or on a thread that ends, and its team with it.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import cache
from typing import TypeVar

import torch

from marith.scoring.notices import collecting, warn

T = TypeVar("T")

_SOFT = 1  # omp_pause_soft: what the program sees of the runtime stays as it is
SMALL = 2**18  # weights of a mean matrix, below which a second thread saves little


def run_in_thread(compute: Callable[[], T]) -> T:
    """Run `compute` on a thread that ends before this call returns; returns or raises what it does.

    Its warnings point at the line of the caller.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    warnings: list[str] = []

    def run() -> None:
        with collecting() as messages:
            try:
                results.append(compute())
            except BaseException as error:
                errors.append(error)
        warnings.extend(messages)

    thread = threading.Thread(target=run, name="marith-load", daemon=True)
    thread.start()
    thread.join()
    for message in warnings:
        warn(message)
    if errors:
        raise errors[0]
    return results[0]


def start_thread(work: Callable[[], None]) -> threading.Thread:
    """A thread of an engine's own, begun. A program may end while it waits."""
    thread = threading.Thread(target=work, name="marith-engine", daemon=True)
    thread.start()
    return thread


def threads_for(model: torch.nn.Module) -> int | None:
    """How many threads a pass takes: one for a small model, None for as many as torch has.

    A rule on the sizes of matrices, and no measurement: the number of threads may change the last
    bits of a product. On four cores a product with 176 thousand weights gains nothing by a second
    thread, one with 256 thousand a third; beside other processes more threads cost many times it.
    """
    sizes = [weight.numel() for weight in model.parameters() if weight.ndim > 1]
    on_cpu = all(weight.device.type == "cpu" for weight in model.parameters())
    return 1 if on_cpu and sizes and sum(sizes) < SMALL * len(sizes) else None


def take_threads(count: int | None) -> None:
    """Let the calling thread compute with so many; other threads keep their numbers."""
    torch.get_num_threads()  # torch sets the number once a thread, at its first use
    set_number = _set_number()
    if count is not None and set_number is not None:
        set_number(count)


def dismiss_team() -> None:
    """End the workers of the calling thread; its next product makes them anew.

    The runtime counts an idle team like one that computes, and so lets the workers of every other
    thread sleep between two products.
    """
    pause = _pause()
    if pause is not None:
        pause(_SOFT)


@cache
def _set_number() -> Callable[[int], int] | None:
    """The runtime's `omp_set_num_threads`, which holds for the calling thread alone.

    None where the process has loaded no runtime that has it (OpenMP 5.0, section 3.2.1).
    """
    return _of_the_runtime("omp_set_num_threads")


@cache
def _pause() -> Callable[[int], int] | None:
    """The runtime's `omp_pause_resource_all` (OpenMP 5.0, section 3.2.44)."""
    return _of_the_runtime("omp_pause_resource_all")


def _of_the_runtime(name: str) -> Callable[[int], int] | None:
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except (OSError, TypeError):
        return None
