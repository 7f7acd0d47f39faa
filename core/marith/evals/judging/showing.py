"""A judgement for people: a table on the terminal with the paper's below, files, and a picture."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from marith.errors import RequestError
from marith.evals.bench.showing import NO_PLOT, OURS, THEIRS
from marith.evals.experiment.showing import CSV, JSON, MARKDOWN, PLOT, WIDTH
from marith.evals.experiment.store import write
from marith.evals.judging.report import HEAD, Report


def show(report: Report, out: Path | None = None) -> None:
    """Print both tables and the notes; write them to `out`, and draw ours."""
    if out is not None:
        keep(report, out)
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    console.print(report.title, highlight=False, markup=False, soft_wrap=True)
    console.print(_table([list(HEAD), *report.cells()]), highlight=False)
    for note in report.notes:
        console.print(note, highlight=False, markup=False, soft_wrap=True)
    console.print("The paper's, by GPT-4 (won / lost / drawn):", highlight=False)
    console.print(_table(report.printed()), highlight=False)
    if out is not None and find_spec("matplotlib") is None:
        console.print(NO_PLOT, highlight=False, markup=False)


def keep(report: Report, out: Path) -> None:
    """Write all files; without matplotlib, all but the picture."""
    write(out / CSV, report.to_csv())
    write(out / MARKDOWN, report.to_markdown())
    write(out / JSON, report.to_json() + "\n")
    if find_spec("matplotlib") is not None:
        draw(report, out / PLOT)


def draw(report: Report, path: Path) -> None:
    """A bar for each comparison: won, drawn and lost. Raises RequestError without matplotlib."""
    try:
        from matplotlib.figure import Figure  # an extra that only this function needs
    except ModuleNotFoundError:
        raise RequestError(NO_PLOT) from None
    picture = Figure(figsize=(6.4, 1.2 + 0.5 * len(report.comparisons)), layout="constrained")
    axes = picture.subplots()
    names = [f"{one.ours} against {one.theirs}" for one in report.comparisons]
    left = [0.0] * len(names)
    for at, (what, colour) in enumerate((("won", OURS), ("drawn", "#e9ecef"), ("lost", THEIRS))):
        place = (0, 2, 1)[at]
        widths = [one.shares[place].value if one.told else 0.0 for one in report.comparisons]
        axes.barh(names, widths, left=left, color=colour, label=what)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.tick_params(labelsize=8)
    axes.legend(fontsize=8, ncols=3)
    picture.savefig(path, dpi=110)


def _table(rows: list[list[str]]) -> Table:
    head, *rest = rows
    shown = Table()
    for i, column in enumerate(head):
        shown.add_column(column, justify="left" if i < 2 else "right")
    for row in rest:
        shown.add_row(*map(Text, row))
    return shown
