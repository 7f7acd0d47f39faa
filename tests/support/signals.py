"""Signals that processes of tests take as usual, however the test suite was started."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def default_signals() -> Iterator[None]:
    """Take SIGINT and SIGTERM as usual in this process and in processes that are started in here.

    A shell lets its background jobs ignore SIGINT (`nohup make test &`), and a process inherits
    what its parent ignores. Python then raises no KeyboardInterrupt. The handlers of this process
    are restored at the end; processes that were started keep theirs.
    """
    # A new program takes a signal by default if its parent has a handler for it.
    before = {
        number: signal.signal(number, handler)
        for number, handler in (
            (signal.SIGINT, signal.default_int_handler),
            (signal.SIGTERM, signal.SIG_DFL),
        )
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
