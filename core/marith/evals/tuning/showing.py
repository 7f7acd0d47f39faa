"""A search for people: the frontier as a table and a picture, and the best formula to paste."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from marith.evals.experiment.showing import PLOT, present
from marith.evals.tuning.report import Report
from marith.showing import OURS, THEIRS, picture, say, tabled


def show(report: Report, out: Path | None = None) -> None:
    """Print the frontier and the best formula; write all to `out`, and draw it."""
    cells = report.cells()
    left = set(range(len(cells[0]))) - {2, 3}
    console = present(report, tabled(cells, left), out, {PLOT: partial(draw, report)})
    if report.best:
        say(console, [f"best: {report.best.formula}"])


def draw(report: Report, path: Path) -> None:
    """The attribute over perplexity: every trial, the frontier, the bound and the best.

    Raises RequestError where matplotlib is absent.
    """
    drawn = picture(6.4, 4.2)
    axes = drawn.subplots()
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
    drawn.savefig(path, dpi=110)
