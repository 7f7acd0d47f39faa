"""No engine works in a forked child, which has none of its parent's threads: every call says so.

A lock that another thread held is never released in the child, and so none is taken there.
"""

from __future__ import annotations

import os
import threading

from marith.errors import EngineClosed

FORKED = (
    "this process was forked from one that has loaded an engine, and no engine works in a forked "
    'process: start processes by spawn, with multiprocessing.get_context("spawn"), '
    'DataLoader(multiprocessing_context="spawn") or gunicorn without --preload'
)
_loads = False  # whether this process, or one that it was forked from, has loaded an engine
_forked = False


def forked() -> bool:
    """Return whether this process was forked from one that has loaded an engine."""
    return _forked


def require_not_forked() -> None:
    """Raise EngineClosed in a process that was forked from one that has loaded an engine."""
    if _forked:
        raise EngineClosed(FORKED)


class LoadingLock:
    """Lets one thread at a time load. Raises EngineClosed in a forked child."""

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


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_in_child)
