"""Which threads compute: never a caller's own thread.

OpenMP keeps a team of worker threads for each thread that has ever computed. The workers spin for a
while after each product, so a second team slows the first one down (2.5 times on two cores). So a
model computes on the engine's thread, or on a thread that ends, and its team with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from marith.scoring.notices import collecting, warn

T = TypeVar("T")


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
