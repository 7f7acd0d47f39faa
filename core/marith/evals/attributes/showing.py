"""The curves for people: a table of how monotone they are, and the paper's two figures."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from marith.evals.attributes.report import HEAD, Drawn, Report
from marith.evals.experiment.figures import Figure
from marith.evals.experiment.showing import PLOT, present
from marith.showing import OURS, picture, tabled

PERPLEXITY = "perplexity.png"


def show(report: Report, out: Path | None = None) -> None:
    """Print the table; write everything to `out`, and draw both figures there."""
    pictures = {
        PLOT: partial(draw, report),
        PERPLEXITY: partial(draw, report, of_perplexity=True),
    }
    present(report, tabled([list(HEAD), *report.cells()], left=(0, 1)), out, pictures)


def draw(report: Report, path: Path, of_perplexity: bool = False) -> None:
    """Six panels: the attribute, or the perplexity, over a factor's share of the weight.

    Dashed is what the prompt alone comes to. Raises RequestError where matplotlib is absent.
    """
    drawn = picture(9.6, 5.2)
    panels = drawn.subplots(2, (len(report.curves) + 1) // 2, squeeze=False).flat
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
    drawn.savefig(path, dpi=110)


def _line(curve: Drawn, of_perplexity: bool) -> tuple[list[Figure], Figure | None]:
    """What is drawn of a curve, and the dashed line."""
    if of_perplexity:
        return [p.perplexity for p in curve.points], curve.prompted and curve.prompted[1]
    return [p.attribute for p in curve.points], curve.prompted and curve.prompted[0]
