"""The curves for people: a table of how monotone they are, and the paper's two figures."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from marith.errors import RequestError
from marith.evals.attributes.report import HEAD, Drawn, Report
from marith.evals.bench.showing import NO_PLOT, OURS
from marith.evals.experiment.figures import Figure
from marith.evals.experiment.showing import CSV, JSON, MARKDOWN, PLOT, WIDTH
from marith.evals.experiment.store import write

PERPLEXITY = "perplexity.png"


def show(report: Report, out: Path | None = None) -> None:
    """Print the table; write everything to `out`, and draw both figures there."""
    if out is not None:
        keep(report, out)
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    table = Table()
    for i, column in enumerate(HEAD):
        table.add_column(column, justify="left" if i < 2 else "right")
    for row in report.cells():
        table.add_row(*map(Text, row))
    console.print(report.title, highlight=False, markup=False, soft_wrap=True)
    console.print(table, highlight=False)
    for note in report.notes:
        console.print(note, highlight=False, markup=False, soft_wrap=True)
    if out is not None and find_spec("matplotlib") is None:
        console.print(NO_PLOT, highlight=False, markup=False)


def keep(report: Report, out: Path) -> None:
    """Write all files; without matplotlib, all but the figures."""
    write(out / CSV, report.to_csv())
    write(out / MARKDOWN, report.to_markdown())
    write(out / JSON, report.to_json() + "\n")
    if find_spec("matplotlib") is not None:
        draw(report, out / PLOT)
        draw(report, out / PERPLEXITY, of_perplexity=True)


def draw(report: Report, path: Path, of_perplexity: bool = False) -> None:
    """Six panels: the attribute, or the perplexity, over a factor's share of the weight.

    Dashed is what the prompt alone comes to. Raises RequestError where matplotlib is absent.
    """
    try:
        from matplotlib.figure import Figure as Picture  # an extra that only this function needs
    except ModuleNotFoundError:
        raise RequestError(NO_PLOT) from None
    picture = Picture(figsize=(9.6, 5.2), layout="constrained")
    panels = picture.subplots(2, (len(report.curves) + 1) // 2, squeeze=False).flat
    for axes, curve in zip(panels, report.curves, strict=False):
        found, alone = _line(curve, of_perplexity)
        shares = [point.share for point in curve.points]
        axes.plot(shares, [one.mean for one in found], "o-", color=OURS, markersize=4)
        sure = [one.low for one in found], [one.high for one in found]
        axes.fill_between(shares, *sure, color=OURS, alpha=0.15)
        if alone is not None:
            axes.axhline(alone.mean, color="black", linestyle="--", linewidth=0.9)
        axes.set_title(f"{curve.name}: {curve.attribute}", fontsize=9)
        axes.set_xlabel("share of the weight", fontsize=8)
        axes.set_ylabel("perplexity" if of_perplexity else curve.attribute, fontsize=8)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.3)
    picture.savefig(path, dpi=110)


def _line(curve: Drawn, of_perplexity: bool) -> tuple[list[Figure], Figure | None]:
    """What is drawn of a curve, and the dashed line."""
    if of_perplexity:
        return [p.perplexity for p in curve.points], curve.prompted and curve.prompted[1]
    return [p.attribute for p in curve.points], curve.prompted and curve.prompted[0]
