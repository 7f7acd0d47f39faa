"""Bars of what is done, on standard error."""

from __future__ import annotations

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)

from marith.showing import bars


def progress(width: int = 30) -> Progress:
    """Bars on standard error, where it is a terminal, or in a notebook."""
    return bars(*_columns(width))


def timed_progress(width: int = 40) -> Progress:
    """Bars on standard error wherever that goes: what is timed, and how long it took."""
    return bars(*_columns(width), everywhere=True)


def _columns(width: int) -> tuple[TextColumn, BarColumn, MofNCompleteColumn, TimeElapsedColumn]:
    bar = BarColumn(width), MofNCompleteColumn(), TimeElapsedColumn()
    return TextColumn("{task.description}"), *bar
