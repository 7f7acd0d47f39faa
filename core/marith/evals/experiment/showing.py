"""A report for people: a table on the terminal, and files of several kinds in a folder."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from marith.evals.bench.showing import NO_PLOT
from marith.evals.experiment.drawing import draw
from marith.evals.experiment.report import NAMED, Report
from marith.evals.experiment.store import write

WIDTH = 200  # where there is no terminal
CSV, MARKDOWN, JSON, PLOT = "table.csv", "table.md", "report.json", "plot.png"


def show(report: Report, out: Path | None = None) -> None:
    """Print the table and its notes; write it to `out` as CSV, Markdown and JSON, and draw it."""
    if out is not None:
        keep(report, out)
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    console.print(report.title, highlight=False, markup=False, soft_wrap=True)
    console.print(table(report), highlight=False)
    below = [report.caption] if report.models else []
    for line in [*below, *report.notes]:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if out is not None and find_spec("matplotlib") is None:
        console.print(NO_PLOT, highlight=False, markup=False)


def keep(report: Report, out: Path) -> None:
    """Write all files; without matplotlib, all but the plot."""
    write(out / CSV, report.to_csv())
    write(out / MARKDOWN, report.to_markdown())
    write(out / JSON, report.to_json() + "\n")
    if find_spec("matplotlib") is not None:
        draw(report, out / PLOT)


def table(report: Report) -> Table:
    """The cells of the report as rich prints them."""
    head, *rows = report.cells()
    shown = Table()
    for name in head:
        shown.add_column(name, justify="left" if name in NAMED else "right", overflow="fold")
    for row in rows:
        shown.add_row(*map(Text, row))  # brackets are no markup
    return shown
