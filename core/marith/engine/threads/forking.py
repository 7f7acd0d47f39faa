"""A fork happens between two steps; the child makes new threads and locks.

Of all threads only the one that forks goes on in the child. A lock that another held is never
released there, and a pass that another ran is never finished.
"""

from __future__ import annotations

import os
import threading
from typing import Protocol
from weakref import WeakSet

from marith.scoring.cpu_threads import dismiss_team


class ForkAware(Protocol):
    """Something with threads or locks of its own."""

    def before_fork(self) -> None:
        """Wait until no thread changes anything."""
        ...

    def after_fork(self) -> None:
        """Go on in the parent."""
        ...

    def in_child(self) -> None:
        """Begin anew in the child."""
        ...


class ForkSafeLock:
    """A lock for one thread at a time, which may take it again; free in a forked child."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        register(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def before_fork(self) -> None:
        """It is not waited for: a load may take minutes."""

    def after_fork(self) -> None:
        """Nothing was changed."""

    def in_child(self) -> None:
        """Replace a lock that a thread of the parent holds."""
        if self._lock.acquire(blocking=False):
            self._lock.release()  # free, or held by the thread that forks
        else:
            self._lock = threading.RLock()


_registered: WeakSet[ForkAware] = WeakSet()
_registering = threading.Lock()
_forks = threading.local()  # of each thread that forks: those whose `before_fork` it has called


def register(each: ForkAware) -> None:
    """Call the methods of `each` at each fork, for as long as it is used."""
    with _registering:
        _registered.add(each)


def _all() -> list[ForkAware]:
    with _registering:
        return list(_registered)


def _before_fork() -> None:
    dismiss_team()  # the child would wait for ever for the workers of the thread that forks
    stopped = _forks.stopped = []
    while new := [each for each in _all() if each not in stopped]:  # some are made meanwhile
        for each in new:
            stopped.append(each)
            each.before_fork()


def _after_fork() -> None:
    """Those that were stopped go on: others may have been made since."""
    for each in _forks.__dict__.pop("stopped", []):
        each.after_fork()


def _in_child() -> None:
    global _registering
    _registering = threading.Lock()
    _forks.__dict__.pop("stopped", None)
    for each in _all():
        each.in_child()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
