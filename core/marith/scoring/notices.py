"""Warnings that point at the caller's line, from any depth and any thread; notes in the log."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

_log = logging.getLogger(__name__)
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


@cache
def note_neighbors(what: str) -> None:
    """Log once that the last bits of `what` depend on the texts that share a pass."""
    _log.info(
        "on this processor, the last bits of %s depend on the other texts of a pass, so a seed may "
        "give another text if other requests run beside it",
        what,
    )


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == __name__.partition(".")[0]
