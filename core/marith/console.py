"""Print lines, tables and progress bars to the terminal, and draw plots with matplotlib."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress, ProgressColumn
from rich.table import Table
from rich.text import Text

from marith.errors import RequestError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The remaining time of a bar is estimated from the speed over this last period.
RECENT = 300.0  # seconds
OURS, THEIRS = "#2a6f97", "#adb5bd"
PLOTS = (".png", ".svg", ".pdf")
NO_PLOT = "a plot needs matplotlib: pip install 'marith[evals]'"


def terminal(width: int = 200) -> Console:
    """Return a console for standard output. Without a terminal it is `width` characters wide."""
    console = Console()
    return console if console.is_terminal else Console(width=width)


def say(console: Console, lines: Iterable[str]) -> None:
    """Print lines without interpreting brackets as markup, and without wrapping them."""
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def print_table(
    console: Console, head: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int]
) -> None:
    """Print a table without its empty columns. The columns in `left` are left-aligned."""
    kept = [i for i in range(len(head)) if any(row[i] for row in rows)]
    table = Table()
    for i in kept:
        table.add_column(head[i], justify="left" if i in left else "right", overflow="fold")
    for row in rows:
        # `Text` does not read brackets as markup.
        table.add_row(*(Text(row[i]) for i in kept))
    console.print(table, highlight=False)


def fixed(value: float | None, behind: int = 2) -> str:
    """Return a number with `behind` digits after the decimal point, or "" for None."""
    return "" if value is None else f"{value:.{behind}f}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 prompt" or "2 prompts"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def bars(*columns: ProgressColumn, everywhere: bool = False) -> Progress:
    """Return progress bars on standard error. They need a terminal unless `everywhere`.

    A notebook shows bars with ipywidgets. Without ipywidgets it has no bars, because rich would
    only print a warning.
    """
    console = Console(stderr=True)
    shown = everywhere or console.is_terminal
    if console.is_jupyter:
        shown = find_spec("ipywidgets") is not None
    return Progress(*columns, console=console, disable=not shown, speed_estimate_period=RECENT)


def check_plot(path: Path | None) -> None:
    """Raise RequestError if a plot could not be written to this file."""
    if path is None:
        return
    if path.suffix.lower() not in PLOTS:
        raise RequestError(f"the file of a plot must end in {', '.join(PLOTS)}, not {str(path)!r}")
    if find_spec("matplotlib") is None:
        raise RequestError(NO_PLOT)


def picture(width: float, height: float) -> Figure:
    """Return an empty figure; its size is in inches. Raises RequestError without matplotlib."""
    try:
        # Only this function needs matplotlib, which an extra installs.
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise RequestError(NO_PLOT) from None
    return Figure(figsize=(width, height), layout="constrained")
