"""A report for people: a table on the terminal, and files of several kinds in a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.table import Table

from marith.evals.experiment.drawing import draw
from marith.evals.experiment.report import NAMED, Report
from marith.evals.experiment.store import write
from marith.showing import NO_PLOT, can_draw, say, tabled, terminal

CSV, MARKDOWN, JSON, PLOT = "table.csv", "table.md", "report.json", "plot.png"


class Kept(Protocol):
    """A report as every evaluation has one."""

    @property
    def title(self) -> str:
        """What stands above the table."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be read with it."""
        ...

    def to_csv(self) -> str:
        """Every number, for programs."""
        ...

    def to_markdown(self) -> str:
        """The table, with its title and its notes."""
        ...

    def to_json(self) -> str:
        """Everything there is."""
        ...


def show(report: Report, out: Path | None = None) -> None:
    """Print the table and its notes; write it to `out` as CSV, Markdown and JSON, and draw it."""
    cells = report.cells()
    left = [i for i, name in enumerate(cells[0]) if name in NAMED]
    caption = [report.caption] if report.models else []
    present(report, tabled(cells, left), out, {PLOT: partial(draw, report)}, caption)


def present(
    report: Kept,
    table: Table,
    out: Path | None,
    pictures: Mapping[str, Callable[[Path], None]],
    below: Sequence[str] = (),
) -> Console:
    """Write all there is to `out`; print the title, the table, lines below it and the notes.

    `pictures` are drawn by the names of their files, if there is matplotlib. Returns the terminal,
    for what comes after.
    """
    if out is not None:
        write(out / CSV, report.to_csv())
        write(out / MARKDOWN, report.to_markdown())
        write(out / JSON, report.to_json() + "\n")
        for name, draw_to in pictures.items() if can_draw() else ():
            draw_to(out / name)
    console = terminal()
    say(console, [report.title])
    console.print(table, highlight=False)
    say(console, [*below, *report.notes])
    if out is not None and not can_draw():
        say(console, [NO_PLOT])
    return console
