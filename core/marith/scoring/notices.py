"""Warnings that point at the caller's line, from any depth and any thread."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_collected: ContextVar[list[str] | None] = ContextVar("_collected", default=None)


def warn(message: str) -> None:
    """Issue a UserWarning that points at the line that called marith.

    Inside a `collecting` block, add the message to the block's list instead.
    """
    collected = _collected.get()
    if collected is not None:
        collected.append(message)
        return
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, stacklevel=depth)


@contextmanager
def collecting() -> Iterator[list[str]]:
    """Collect the messages of the block's warnings in a list.

    A worker thread passes the list to the thread that waits for it.
    """
    messages: list[str] = []
    token = _collected.set(messages)
    try:
        yield messages
    finally:
        _collected.reset(token)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == __name__.partition(".")[0]
