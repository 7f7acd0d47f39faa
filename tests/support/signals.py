"""Restore the default signals, however the test suite was started."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def default_signals() -> Iterator[None]:
    """Handle SIGINT and SIGTERM as usual, here and in processes started in the context.

    A shell lets its background jobs ignore SIGINT (`nohup make test &`), and a process inherits the
    ignored signals of its parent: Python then raises no KeyboardInterrupt. At the end, this process
    gets its own handlers back; processes that were started keep theirs.
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
