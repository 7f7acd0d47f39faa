"""What is said while it runs: a bar for each formula and each measure, and notes before them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

FEW = 12  # bars that stay to be seen
_LONGEST_NAME = 48


class Bars:
    """A bar for each formula and each measure. Keeps state: those that were shown."""

    def __init__(self, shown: Progress, lines: int) -> None:
        self._progress = shown
        self._many = lines > FEW
        self._bars: dict[str, TaskID] = {}

    def begin(self, name: str, total: int, done: int = 0) -> None:
        """Show a bar."""
        told = name[:_LONGEST_NAME].ljust(_LONGEST_NAME)
        self._bars[name] = self._progress.add_task(told, total=total, completed=done)

    def advance(self, name: str, count: int = 1) -> None:
        """So much more is done. Where there are many bars, those that are full go."""
        bar = self._bars[name]
        self._progress.advance(bar, count)
        if self._many and self._progress.tasks[bar].finished:
            self._progress.update(bar, visible=False)


def tell(notes: Sequence[str]) -> None:
    """Say on standard error, before anything is made, what will stand below the table."""
    console = Console(stderr=True)
    for note in notes:
        console.print(note, highlight=False, markup=False, soft_wrap=True)


def progress(width: int = 30) -> Progress:
    """Bars on standard error, where it is a terminal."""
    console = Console(stderr=True)
    made = TextColumn("{task.description}"), BarColumn(width), MofNCompleteColumn()
    return Progress(*made, TimeElapsedColumn(), console=console, disable=not console.is_terminal)
