"""Start threads that compute, log from them, and wait for their end before the interpreter ends.

OpenMP keeps a team of worker threads for each thread that has ever computed. After each matrix
product the workers spin for a while, so a second team slows the first one down (2.5 times on two
cores). Therefore a model computes on the engine's thread, or on a thread that ends and takes its
team with it, and never on a caller's own thread. A forked child has no threads, so every call of an
engine raises there. A lock that another thread held is never released in the child, so the child
takes no lock.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from marith.errors import EngineClosed
from marith.scoring.notices import collecting, warn

FORKED = (
    "this process was forked from one that has loaded an engine, and no engine works in a forked "
    'process: start processes by spawn, with multiprocessing.get_context("spawn"), '
    'DataLoader(multiprocessing_context="spawn") or gunicorn without --preload'
)
# This is True if this process, or a process that it was forked from, has loaded an engine.
_loads = False
_forked = False
ENGINE, LOAD = "marith-engine", "marith-load"  # the names of threads that compute
# The most seconds to wait for each thread: an abandoned load may take minutes.
END_WITHIN = 5.0
T = TypeVar("T")


def forked() -> bool:
    """Return True if this process was forked from one that has loaded an engine."""
    return _forked


def require_not_forked() -> None:
    """Raise EngineClosed in a process that was forked from one that has loaded an engine."""
    if _forked:
        raise EngineClosed(FORKED)


class LoadingLock:
    """A lock for loading by one thread at a time. Raises EngineClosed in a forked child."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        global _loads
        require_not_forked()
        _loads = True
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _in_child() -> None:
    global _forked
    _forked = _loads


# Windows has no fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def start_thread(work: Callable[[], object], name: str) -> threading.Thread:
    """Start a thread that runs `work`, and return it.

    The thread is a daemon, so the program may end while the thread waits.
    """
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread


def run_in_thread(compute: Callable[[], T]) -> T:
    """Run `compute` on a thread that ends before this call returns; return or raise its result.

    Its warnings point at the caller's line.
    """
    done: Future[T] = Future()
    warnings: list[str] = []

    def run() -> None:
        with collecting() as messages:
            try:
                done.set_result(compute())
            except BaseException as error:
                done.set_exception(error)
        warnings.extend(messages)

    start_thread(run, LOAD).join()
    for message in warnings:
        warn(message)
    return done.result()


def log(logger: logging.Logger, level: int, message: str, *values: object) -> None:
    """Log a record. If a handler or filter raises, only this record is lost.

    The traceback goes to standard error if `logging.raiseExceptions` is true, as it does for errors
    that `logging.Handler.handleError` prints.
    """
    try:
        logger.log(level, message, *values, stacklevel=2)
    except Exception:
        if logging.raiseExceptions and sys.stderr is not None:
            traceback.print_exc()


# This is registered before any engine, so it is called after all engines are closed.
@atexit.register
def outwait() -> None:
    """Wait until all threads that compute have ended, before the interpreter ends.

    A thread that takes the interpreter's lock after the interpreter has ended is unwound by Python.
    If torch's C++ code is on the thread's stack, that aborts the process.
    """
    for thread in threading.enumerate():
        if thread.name in (ENGINE, LOAD) and thread is not threading.current_thread():
            thread.join(END_WITHIN)
