"""A judgement for people: a table on the terminal with the paper's below, files, and a picture."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from marith.evals.experiment.showing import PLOT, present
from marith.evals.judging.report import HEAD, Report
from marith.showing import OURS, THEIRS, picture, say, tabled


def show(report: Report, out: Path | None = None) -> None:
    """Print both tables and the notes; write them to `out`, and draw ours."""
    ours = tabled([list(HEAD), *report.cells()], left=(0, 1))
    console = present(report, ours, out, {PLOT: partial(draw, report)})
    say(console, ["The paper's, by GPT-4 (won / lost / drawn):"])
    console.print(tabled(report.printed(), left=(0, 1)), highlight=False)


def draw(report: Report, path: Path) -> None:
    """A bar for each comparison: won, drawn and lost. Raises RequestError without matplotlib."""
    drawn = picture(6.4, 1.2 + 0.5 * len(report.comparisons))
    axes = drawn.subplots()
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
    drawn.savefig(path, dpi=110)
