"""Warnings that point at the caller's line, from whatever depth and thread they come."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_collected: ContextVar[list[str] | None] = ContextVar("_collected", default=None)


def warn(message: str) -> None:
    """A UserWarning at the line that called marith."""
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
    """The messages of the block's warnings, for a thread to hand to the one that waits for it."""
    messages: list[str] = []
    token = _collected.set(messages)
    try:
        yield messages
    finally:
        _collected.reset(token)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == __name__.partition(".")[0]
