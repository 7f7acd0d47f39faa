"""A search for people: the frontier as a table and a picture, and the best formula to paste."""

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
from marith.evals.tuning.report import Report


def show(report: Report, out: Path | None = None) -> None:
    """Print the frontier and the best formula; write all to `out`, and draw it."""
    if out is not None:
        keep(report, out)
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    head, *rows = report.cells()
    table = Table()
    for i, column in enumerate(head):
        table.add_column(column, justify="right" if i in (2, 3) else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(report.title, highlight=False, markup=False, soft_wrap=True)
    console.print(table, highlight=False)
    for note in report.notes:
        console.print(note, highlight=False, markup=False, soft_wrap=True)
    if out is not None and find_spec("matplotlib") is None:
        console.print(NO_PLOT, highlight=False, markup=False)
    if report.best:
        console.print(f"best: {report.best.formula}", highlight=False, markup=False, soft_wrap=True)


def keep(report: Report, out: Path) -> None:
    """Write all files; without matplotlib, all but the plot."""
    write(out / CSV, report.to_csv())
    write(out / MARKDOWN, report.to_markdown())
    write(out / JSON, report.to_json() + "\n")
    if find_spec("matplotlib") is not None:
        draw(report, out / PLOT)


def draw(report: Report, path: Path) -> None:
    """The attribute over perplexity: every trial, the frontier, the bound and the best.

    Raises RequestError where matplotlib is absent.
    """
    try:
        from matplotlib.figure import Figure  # an extra that only this function needs
    except ModuleNotFoundError:
        raise RequestError(NO_PLOT) from None
    picture = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = picture.subplots()
    points = [(t.perplexity.mean, t.attribute.mean) for t in report.trials
              if t.perplexity and t.attribute]  # fmt: skip
    if points:
        axes.plot(*zip(*points, strict=True), "o", color=THEIRS, label="trials")
    ahead = [(t.perplexity.mean, t.attribute.mean) for t in report.frontier
             if t.perplexity and t.attribute]  # fmt: skip
    if ahead:
        axes.step(*zip(*ahead, strict=True), "o-", where="post", color=OURS, label="frontier")
    bare = report.bare
    axes.plot([bare[1].mean], [bare[0].mean], "s", color="black", label="M")
    chosen = report.best
    if chosen and chosen.perplexity and chosen.attribute:
        place = [chosen.perplexity.mean], [chosen.attribute.mean]
        axes.plot(*place, "*", color="#d1495b", markersize=14, label=chosen.formula)
    axes.axvline(report.most, color="black", linewidth=0.8, linestyle="--", label="bound")
    axes.set_xlabel("perplexity under M")
    axes.set_ylabel(report.attribute)
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3)
    picture.savefig(path, dpi=110)
