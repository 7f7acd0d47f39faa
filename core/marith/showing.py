"""Shows results: lines, tables and bars on the terminal, pictures where matplotlib is installed."""

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

RECENT = 300.0  # seconds: what is left is estimated by what was done in these
OURS, THEIRS = "#2a6f97", "#adb5bd"
PLOTS = (".png", ".svg", ".pdf")
NO_PLOT = "a plot needs matplotlib: pip install 'marith[evals]'"


def terminal(width: int = 200) -> Console:
    """The console of the program; `width` letters wide where its output is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=width)


def say(console: Console, lines: Iterable[str]) -> None:
    """Print lines as they are: brackets are no markup, and no line is broken."""
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def print_table(
    console: Console, head: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int]
) -> None:
    """Print a table without the columns that no row fills; those numbered in `left` hold words."""
    kept = [i for i in range(len(head)) if any(row[i] for row in rows)]
    table = Table()
    for i in kept:
        table.add_column(head[i], justify="left" if i in left else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(row[i]) for i in kept))  # brackets are no markup
    console.print(table, highlight=False)


def fixed(value: float | None, behind: int = 2) -> str:
    """Return a number with this many digits after the decimal point; "" for None."""
    return "" if value is None else f"{value:.{behind}f}"


def counted(count: int, noun: str) -> str:
    """Return 1 prompt, 2 prompts."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def bars(*columns: ProgressColumn, everywhere: bool = False) -> Progress:
    """Bars on standard error: on a terminal, or `everywhere`; in a notebook, by its widgets.

    A notebook without ipywidgets has no bars: rich, which draws them, would only warn of it.
    """
    console = Console(stderr=True)
    shown = everywhere or console.is_terminal
    if console.is_jupyter:
        shown = find_spec("ipywidgets") is not None
    return Progress(*columns, console=console, disable=not shown, speed_estimate_period=RECENT)


def check_plot(path: Path | None) -> None:
    """Raise RequestError for a picture that cannot be drawn later."""
    if path is None:
        return
    if path.suffix.lower() not in PLOTS:
        raise RequestError(f"a plot ends in {', '.join(PLOTS)}, not {str(path)!r}")
    if find_spec("matplotlib") is None:
        raise RequestError(NO_PLOT)


def picture(width: float, height: float) -> Figure:
    """An empty picture, its size in inches. Raises RequestError without matplotlib."""
    try:
        from matplotlib.figure import Figure  # an extra that only this function needs
    except ModuleNotFoundError:
        raise RequestError(NO_PLOT) from None
    return Figure(figsize=(width, height), layout="constrained")
