"""The six curves as they were measured: how each attribute follows its factor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from marith.evals.experiment.evaluation import Results
from marith.evals.metrics.statistics import Figure, deepest_fall, figure, spearman
from marith.evals.paper.attributes.curves import Curve
from marith.evals.reporting.evaluation_report import PLOT, EvaluationReport
from marith.evals.reporting.numbers import digits
from marith.evals.reporting.table import Table
from marith.showing import OURS, picture

PERPLEXITY = "perplexity.png"
HEAD = ("curve", "controls", "from", "to", "Spearman", "deepest fall", "prompt alone", "perplexity")


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A factor, its share of the formula's weight, and how the formula's texts are."""

    factor: float
    share: float
    formula: str
    attribute: Figure
    perplexity: Figure


@dataclass(frozen=True, slots=True)
class MeasuredCurve:
    """A curve with its points; `prompted` are attribute and perplexity by the prompt alone."""

    name: str
    attribute: str
    points: tuple[CurvePoint, ...]
    prompted: tuple[Figure, Figure] | None

    @property
    def heights(self) -> list[float]:
        """The attribute's means."""
        return [point.attribute.mean for point in self.points]

    @property
    def spearman(self) -> float:
        """The rank correlation of factor and attribute."""
        return spearman([point.factor for point in self.points], self.heights)

    @property
    def deepest_fall(self) -> float:
        """How far it falls at most, as a share of its height."""
        return deepest_fall(self.heights)

    def row(self) -> list[str]:
        """Its line of the table."""
        perplexities = [point.perplexity.mean for point in self.points]
        return [
            self.name,
            self.attribute,
            digits(self.heights[0]),
            digits(self.heights[-1]),
            f"{self.spearman:.2f}",
            f"{100 * self.deepest_fall:.0f} %",
            digits(self.prompted[0].mean) if self.prompted else "",
            f"{digits(min(perplexities))} to {digits(max(perplexities))}",
        ]

    def table(self) -> Table:
        """Its points, a column each."""
        perplexities = [point.perplexity for point in self.points]
        rows = {
            "share": [point.share for point in self.points],
            self.attribute: self.heights,
            "perplexity": [statistic.mean for statistic in perplexities],
            "its median": [statistic.median for statistic in perplexities],
        }
        return Table(
            ["λ", *(f"{point.factor:g}" for point in self.points)],
            [[name, *map(digits, numbers)] for name, numbers in rows.items()],
            title=f"**{self.name}: {self.attribute}**",
        )

    def records(self) -> Iterator[dict[str, Any]]:
        """All that is known of each point."""
        for point in self.points:
            place = {"curve": self.name, "attribute": self.attribute, "factor": str(point.factor)}
            measured = {"attribute": point.attribute, "perplexity": point.perplexity}
            numbers = {
                f"{what} {kind}": value
                for what, statistic in measured.items()
                for kind, value in asdict(statistic).items()
            }
            yield {**place, "share": point.share, "formula": point.formula, **numbers}


@dataclass(frozen=True, slots=True)
class MeasuredCurves:
    """The whole figure; `notes` are to be read with it."""

    title: str
    curves: tuple[MeasuredCurve, ...]
    settings: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    def report(self) -> EvaluationReport:
        """How monotone each curve is, its points, and the paper's two figures."""
        data = asdict(self)
        for plain, curve in zip(data["curves"], self.curves, strict=True):
            plain |= {"spearman": curve.spearman, "deepest_fall": curve.deepest_fall}
        plots = {
            PLOT: partial(draw, self.curves),
            PERPLEXITY: partial(draw, self.curves, of_perplexity=True),
        }
        return EvaluationReport(
            self.title,
            [Table(HEAD, [curve.row() for curve in self.curves], left=(0, 1))],
            data,
            [record for curve in self.curves for record in curve.records()],
            self.notes,
            details=[curve.table() for curve in self.curves],
            plots=plots,
        )


def measured_curves(
    curves: Sequence[Curve], results: Results, measures: Mapping[str, str]
) -> tuple[MeasuredCurve, ...]:
    """The curves out of what was measured; `measures` name the judge of each attribute."""

    def figures(line: str, attribute: str) -> tuple[Figure, Figure]:
        return (
            figure(results.by_prompt(line, measures[attribute])),
            figure(results.by_prompt(line, "perplexity")),
        )

    measured = []
    for curve in curves:
        formulas = [(value, curve.at(value)) for value in curve.values]
        points = tuple(
            CurvePoint(value, curve.share(value), formula, *figures(formula, curve.attribute))
            for value, formula in formulas
        )
        alone = figures(curve.attribute, curve.attribute) if curve.prompted else None
        measured.append(MeasuredCurve(curve.name, curve.attribute, points, alone))
    return tuple(measured)


def draw(curves: Sequence[MeasuredCurve], path: Path, of_perplexity: bool = False) -> None:
    """Six panels: the attribute, or the perplexity, over a factor's share of the weight.

    Dashed is what the prompt alone comes to. Raises RequestError where matplotlib is absent.
    """
    figure = picture(9.6, 5.2)
    panels = figure.subplots(2, (len(curves) + 1) // 2, squeeze=False).flat
    for axes, curve in zip(panels, curves, strict=False):
        figures = [p.perplexity if of_perplexity else p.attribute for p in curve.points]
        shares = [point.share for point in curve.points]
        axes.plot(shares, [statistic.mean for statistic in figures], "o-", color=OURS, markersize=4)
        band = [statistic.low for statistic in figures], [statistic.high for statistic in figures]
        axes.fill_between(shares, *band, color=OURS, alpha=0.15)
        if curve.prompted is not None:
            alone = curve.prompted[of_perplexity]
            axes.axhline(alone.mean, color="black", linestyle="--", linewidth=0.9)
        axes.set_title(f"{curve.name}: {curve.attribute}", fontsize=9)
        axes.set_xlabel("share of the weight", fontsize=8)
        axes.set_ylabel("perplexity" if of_perplexity else curve.attribute, fontsize=8)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
