"""What an evaluation measured: each formula's figures, and a published table's beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marith.evals.experiment.evaluation import Results
from marith.evals.experiment.texts import NamedFormula
from marith.evals.metrics.statistics import Figure, figure
from marith.evals.reporting.evaluation_report import PLOT, EvaluationReport
from marith.evals.reporting.numbers import digits, with_interval
from marith.evals.reporting.published import PublishedTable
from marith.evals.reporting.table import Table
from marith.showing import OURS, picture

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes


_SOURCES = ("model", "lexicon", "computed", "function")  # in what a metric says of itself


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A formula's figures by measure, and the paper's by model where it has the formula."""

    line: NamedFormula
    figures: Mapping[str, Figure]
    paper: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Summary:
    """A whole evaluation. `measures` say which way is better; `notes` are to be read with it."""

    evaluation: str
    title: str
    measures: Mapping[str, str]
    rows: tuple[SummaryRow, ...]
    settings: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    paper: PublishedTable | None = None

    def report(self) -> EvaluationReport:
        """The table, every number, and a picture."""
        data = {**asdict(self), "paper": self.paper and self.paper.title}
        plots = {PLOT: partial(draw, self)}
        records = [self._record(row) for row in self.rows]
        return EvaluationReport(self.title, [self.table()], data, records, self.notes, plots=plots)

    def to_dataframe(self) -> pandas.DataFrame:
        """A row for each formula: its name, its text, and the figures of every measure."""
        return self.report().to_dataframe()

    def table(self) -> Table:
        """A line for each formula: means with their intervals, medians, and what the paper has."""
        head = ["", "formula"]
        for measure, better in self.measures.items():
            arrow = {"lower": " ↓", "higher": " ↑"}.get(better, "")
            head += [f"{measure}{arrow}", "median"]
        paper = self.paper if any(row.paper for row in self.rows) else None
        models = paper.models if paper else ()
        caption = f"paper: {' / '.join(paper.measures)}; {paper.title}" if paper else ""
        rows = [self._cells(row, models) for row in self.rows]
        head += [f"paper: {model}" for model in models]
        return Table(head, rows, left=(0, 1), caption=caption).filled()

    def _cells(self, row: SummaryRow, models: Sequence[str]) -> list[str]:
        name, formula = row.line.name, row.line.formula
        cells = [name, "" if formula == name else formula]
        for measure in self.measures:
            numbers = row.figures[measure]
            cells += [with_interval(numbers), digits(numbers.median)]
        printed = (row.paper.get(model) for model in models)
        return cells + [self.paper.printed(p) if self.paper and p else "" for p in printed]

    def _record(self, row: SummaryRow) -> dict[str, Any]:
        """All that is known of a row, by the name of its column."""
        record: dict[str, Any] = {"name": row.line.name, "formula": row.line.formula}
        for measure in self.measures:
            figures = asdict(row.figures[measure])
            record |= {f"{measure} {kind}": value for kind, value in figures.items()}
        for model, numbers in row.paper.items():
            assert self.paper is not None
            pairs = zip(self.paper.measures, numbers, strict=True)
            record |= {f"paper: {model} {measure}": number for measure, number in pairs}
        return record


def summarise(
    results: Results,
    title: str,
    paper: PublishedTable | None = None,
    notes: Sequence[str] = (),
) -> Summary:
    """The figures of every line, over prompts; a note says what has no number."""
    experiment = results.experiment
    measures = {measure.name: measure.better for measure in experiment.measures}
    rows = tuple(
        SummaryRow(
            line,
            {name: figure(results.by_prompt(line.name, name)) for name in measures},
            paper.beside(line.formula) if paper else {},
        )
        for line in experiment.lines
    )
    missing = [note for name in measures if (note := _missing(name, rows))]
    settings = experiment.settings()
    return Summary(
        experiment.evaluation, title, measures, rows, settings, (*notes, *missing), paper
    )


def draw(summary: Summary, path: Path) -> None:
    """Write the plot: two measures against each other, or a panel for each, a point a formula.

    Raises RequestError where matplotlib is absent.
    """
    names = list(summary.measures)
    panels = 1 if len(names) == 2 else len(names)
    figure = picture(2.2 + 4.2 * panels, 4.2)
    axes = figure.subplots(1, panels, squeeze=False)[0]
    if len(names) == 2:
        _draw_against(axes[0], summary, names[1], names[0])
    else:
        for panel, name in zip(axes, names, strict=True):
            _draw_alone(panel, summary, name)
    for panel in axes:
        panel.grid(alpha=0.3)
        panel.tick_params(labelsize=8)
    figure.savefig(path, dpi=110)


def _draw_against(axes: Axes, summary: Summary, across: str, up: str) -> None:
    """A point with its intervals for each formula, its name beside it."""
    for row in summary.rows:
        x, y = row.figures[across], row.figures[up]
        if not (math.isfinite(x.mean) and math.isfinite(y.mean)):
            continue
        sides = [[x.mean - x.low], [x.high - x.mean]], [[y.mean - y.low], [y.high - y.mean]]
        axes.errorbar(x.mean, y.mean, yerr=sides[1], xerr=sides[0], fmt="o", color=OURS, alpha=0.8)
        axes.annotate(
            row.line.name, (x.mean, y.mean), (5, 5), textcoords="offset points", fontsize=8
        )
    axes.set_xlabel(axis_label(summary, across))
    axes.set_ylabel(axis_label(summary, up))


def _draw_alone(axes: Axes, summary: Summary, name: str) -> None:
    """Means with their intervals, the first formula on top."""
    rows = [row for row in summary.rows if math.isfinite(row.figures[name].mean)]
    figures = [row.figures[name] for row in rows]
    sides = [[f.mean - f.low for f in figures], [f.high - f.mean for f in figures]]
    places = range(len(rows))
    axes.errorbar([f.mean for f in figures], places, xerr=sides, fmt="o", color=OURS)
    axes.set_yticks(places, [row.line.name for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel(axis_label(summary, name))


def axis_label(summary: Summary, name: str) -> str:
    """A measure with what its numbers are of, as far as its settings say, and what is better."""
    described = summary.settings.get("measures", {}).get(name, {})
    source = " ".join(str(described[key]) for key in _SOURCES if key in described)
    if "under" in described:
        source = f"under {described['under']}"
    better = summary.measures[name]
    label = f"{name} ({source})" if source and source != name else name
    return f"{label}, {better} is better" if better else label


def _missing(measure: str, rows: Sequence[SummaryRow]) -> str:
    """How many prompts have no number, formula by formula."""
    counts = {row.line.name: row.figures[measure].missing for row in rows}
    listed = ", ".join(f"{count} of {name}" for name, count in counts.items() if count)
    return f"left out of {measure}, for they have none: {listed}" if listed else ""
