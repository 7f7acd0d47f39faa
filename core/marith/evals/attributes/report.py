"""The six curves as plain data and as tables: how each attribute follows its factor."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from marith.evals.attributes.curves import Curve
from marith.evals.attributes.ranks import deepest_fall, spearman
from marith.evals.experiment.figures import Figure, figure
from marith.evals.experiment.report import digits
from marith.evals.experiment.results import Results

HEAD = ("curve", "controls", "from", "to", "Spearman", "deepest fall", "prompt alone", "perplexity")


@dataclass(frozen=True, slots=True)
class Point:
    """A factor, its share of the formula's weight, and how the formula's texts are."""

    factor: float
    share: float
    formula: str
    attribute: Figure
    perplexity: Figure


@dataclass(frozen=True, slots=True)
class Drawn:
    """A curve as measured; `prompted` are attribute and perplexity by the prompt alone."""

    name: str
    attribute: str
    points: tuple[Point, ...]
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


@dataclass(frozen=True, slots=True)
class Report:
    """The whole figure; `notes` are to be read with it."""

    title: str
    curves: tuple[Drawn, ...]
    settings: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Everything there is; what is no number is null."""
        data = asdict(self)
        for told, curve in zip(data["curves"], self.curves, strict=True):
            told |= {"spearman": curve.spearman, "deepest_fall": curve.deepest_fall}
        return json.dumps(_plain(data), indent=2, ensure_ascii=False)

    def to_csv(self) -> str:
        """A line for each point of each curve."""
        told = io.StringIO()
        writer = csv.writer(told, lineterminator="\n")
        kinds = ("mean", "low", "high", "median", "count", "missing")
        columns = [f"{what} {kind}" for what in ("attribute", "perplexity") for kind in kinds]
        writer.writerow(["curve", "attribute", "factor", "share", "formula", *columns])
        for curve in self.curves:
            for point in curve.points:
                both = point.attribute, point.perplexity
                numbers = [_written(getattr(one, kind)) for one in both for kind in kinds]
                place = point.factor, _written(point.share), point.formula
                writer.writerow([curve.name, curve.attribute, *place, *numbers])
        return told.getvalue()

    def to_markdown(self) -> str:
        """How monotone each curve is, then its points."""
        rows = [HEAD, ["---", "---", *["---:"] * (len(HEAD) - 2)], *self.cells()]
        lines = [f"{self.title}\n", *map(_markdown, rows), ""]
        for curve in self.curves:
            lines.append(f"**{curve.name}: {curve.attribute}**\n")
            factors = [f"{point.factor:g}" for point in curve.points]
            lines.append(_markdown(["λ", *factors]))
            lines.append(_markdown(["---", *["---:"] * len(factors)]))
            lines.append(_markdown(["share", *(digits(p.share) for p in curve.points)]))
            lines.append(_markdown([curve.attribute, *map(digits, curve.heights)]))
            spent = [point.perplexity for point in curve.points]
            lines.append(_markdown(["perplexity", *(digits(one.mean) for one in spent)]))
            lines.append(_markdown(["its median", *(digits(one.median) for one in spent)]))
            lines.append("")
        return "\n".join([*lines, *(f"- {note}" for note in self.notes)]).rstrip() + "\n"

    def cells(self) -> list[list[str]]:
        """A line of the table for each curve."""
        rows = []
        for curve in self.curves:
            spent = [point.perplexity.mean for point in curve.points]
            alone = digits(curve.prompted[0].mean) if curve.prompted else ""
            rows.append(
                [
                    curve.name,
                    curve.attribute,
                    digits(curve.heights[0]),
                    digits(curve.heights[-1]),
                    f"{curve.spearman:.2f}",
                    f"{100 * curve.deepest_fall:.0f} %",
                    alone,
                    f"{digits(min(spent))} to {digits(max(spent))}",
                ]
            )
        return rows


def drawn(
    curves: Sequence[Curve], results: Results, measures: Mapping[str, str]
) -> tuple[Drawn, ...]:
    """The curves out of what was measured; `measures` name the judge of each attribute."""

    def figures(line: str, attribute: str) -> tuple[Figure, Figure]:
        return (
            figure(results.by_prompt(line, measures[attribute])),
            figure(results.by_prompt(line, "perplexity")),
        )

    found = []
    for curve in curves:
        points = tuple(
            Point(value, curve.share(value), text, *figures(text, curve.attribute))
            for value, text in ((value, curve.at(value)) for value in curve.values)
        )
        alone = figures(curve.attribute, curve.attribute) if curve.prompted else None
        found.append(Drawn(curve.name, curve.attribute, points, alone))
    return tuple(found)


def _markdown(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _written(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4g}"


def _plain(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plain(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
