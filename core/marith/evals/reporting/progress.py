"""What is printed on standard error while an evaluation runs: notes, and bars of what is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from marith.showing import bars

FEW = 12  # bars that stay to be seen
_LONGEST_NAME = 48


class Bars:
    """A bar for each formula and each measure. Keeps state: those that were shown."""

    def __init__(self, display: Progress, lines: int) -> None:
        self._progress = display
        self._many = lines > FEW
        self._bars: dict[str, TaskID] = {}

    def begin(self, name: str, total: int, done: int = 0) -> None:
        """Show a bar."""
        label = name[:_LONGEST_NAME].ljust(_LONGEST_NAME)
        self._bars[name] = self._progress.add_task(label, total=total, completed=done)

    def advance(self, name: str, count: int = 1) -> None:
        """So much more is done. Where there are many bars, those that are full go."""
        bar = self._bars[name]
        self._progress.advance(bar, count)
        if self._many and self._progress.tasks[bar].finished:
            self._progress.update(bar, visible=False)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal to others for a while."""
        self._progress.stop()
        yield
        self._progress.start()


def print_notes(notes: Sequence[str]) -> None:
    """Print on standard error, before anything is made, what will stand below the table."""
    console = Console(stderr=True)
    for note in notes:
        console.print(note, highlight=False, markup=False, soft_wrap=True)


def progress(width: int = 30) -> Progress:
    """Bars on standard error, where it is a terminal, or in a notebook."""
    return bars(*_columns(width))


def timed_progress(width: int = 40) -> Progress:
    """Bars on standard error wherever that goes: what is timed, and how long it took."""
    return bars(*_columns(width), everywhere=True)


def _columns(width: int) -> tuple[TextColumn, BarColumn, MofNCompleteColumn, TimeElapsedColumn]:
    bar = BarColumn(width), MofNCompleteColumn(), TimeElapsedColumn()
    return TextColumn("{task.description}"), *bar
