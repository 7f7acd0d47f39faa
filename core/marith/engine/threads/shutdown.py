"""The threads that compute end before the interpreter does.

Python unwinds a thread that takes the interpreter's lock after its end. With torch's C++ code on
the stack, that aborts the process.
"""

from __future__ import annotations

import atexit
import logging
import threading
from typing import Protocol
from weakref import WeakSet

from marith.engine.threads.forking import forked

COMPUTING = ("marith-engine", "marith-load")  # the names of threads that hold tensors
END_WITHIN = 5.0  # seconds for each thread: a load that its caller gave up may take minutes
_log = logging.getLogger(__name__)


class Closable(Protocol):
    """Something with a thread that computes until it is closed."""

    def close(self) -> None:
        """End the thread. Returns once it has ended, or has been waited for long enough."""
        ...


_running: WeakSet[Closable] = WeakSet()
_changing = threading.Lock()


def close_at_exit(engine: Closable) -> None:
    """Close `engine` when the interpreter ends."""
    with _changing:
        _running.add(engine)


@atexit.register
def _end_all() -> None:
    if forked():  # the threads are the parent's
        return
    with _changing:
        running = list(_running)
    for engine in running:
        try:
            engine.close()
        except BaseException:  # whatever one does, the others are closed too
            _log.exception("%r could not be closed at the end of the program", engine)
    for thread in threading.enumerate():  # a closed engine's may still run
        if thread.name in COMPUTING and thread is not threading.current_thread():
            thread.join(END_WITHIN)
