"""A picture of the table: one measure against another, or one alone, a point for each formula."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from marith.evals.experiment.report import Report
from marith.showing import OURS, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(report: Report, path: Path) -> None:
    """Write the figure, of the kind that the path's ending names.

    Raises RequestError where matplotlib is absent.
    """
    drawn = picture(6.4, 4.2)
    axes = drawn.subplots()
    names = list(report.measures)
    if len(names) > 1:
        _draw_against(axes, report, names[1], names[0])
    else:
        _draw_alone(axes, report, names[0])
    axes.grid(alpha=0.3)
    axes.tick_params(labelsize=8)
    drawn.savefig(path, dpi=110)


def _draw_against(axes: Axes, report: Report, across: str, up: str) -> None:
    """A point with its intervals for each formula, its name beside it."""
    for row in report.rows:
        x, y = row.figures[across], row.figures[up]
        if not (x.count and y.count):
            continue
        aside = [[x.mean - x.low], [x.high - x.mean]], [[y.mean - y.low], [y.high - y.mean]]
        axes.errorbar(x.mean, y.mean, yerr=aside[1], xerr=aside[0], fmt="o", color=OURS, alpha=0.8)
        axes.annotate(
            row.line.name, (x.mean, y.mean), (5, 5), textcoords="offset points", fontsize=8
        )
    axes.set_xlabel(across)
    axes.set_ylabel(up)


def _draw_alone(axes: Axes, report: Report, name: str) -> None:
    """Means with their intervals, the first formula on top."""
    rows = [row for row in report.rows if row.figures[name].count]
    figures = [row.figures[name] for row in rows]
    aside = [[f.mean - f.low for f in figures], [f.high - f.mean for f in figures]]
    places = range(len(rows))
    axes.errorbar([f.mean for f in figures], places, xerr=aside, fmt="o", color=OURS)
    axes.set_yticks(places, [row.line.name for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel(name)
