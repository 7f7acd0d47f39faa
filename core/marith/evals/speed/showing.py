"""A report for people: a table of every way, one of calls by λ, and the figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from marith.evals.bench import showing as outputs
from marith.evals.speed.curve import FACTORS, Point
from marith.evals.speed.report import Line, Report
from marith.showing import picture

WIDTH = 150
TITLES = {
    "table": "the paper's table (ms a token over whole texts)",
    "auto": '"auto" against no drafts (ms a token after a text\'s first)',
    "large": "against transformers' generate (ms a token after a text's first)",
}
COLUMNS = (
    "", "calls", "paper", "passes", "ms", "ratio", "paper, ms", "predicted", "stood", "plan",
)  # fmt: skip


def check_outputs(as_json: Path | None, plot: Path | None, sections: Sequence[str]) -> None:
    """Raise RequestError for a file that could not be written at the end."""
    outputs.check_outputs(as_json, plot, sections, plotted=("lambda",))


def show(report: Report, as_json: Path | None = None, plot: Path | None = None) -> None:
    """Print the tables, or with `-` the JSON; write what is to be written."""
    if plot is not None:
        draw(report.curve, plot)
    shown = [table(section, found) for section in TITLES if (found := report.section(section))]
    if report.curve:
        shown.append(by_factor(report.curve))
    outputs.put_out(report.to_json(), as_json, WIDTH, _title(report), shown)


def table(section: str, found: Sequence[Line]) -> Table:
    """The lines of a section by formula. A column that nothing fills is left out."""
    cells = [_cells(line) for line in found]
    filled = [i for i in range(len(COLUMNS)) if any(row[i] for row in cells)]
    shown = Table(title=TITLES[section], title_justify="left")
    for i in filled:
        shown.add_column(COLUMNS[i], justify="left" if i in (0, len(COLUMNS) - 1) else "right")
    formula = ""
    for line, row in zip(found, cells, strict=True):
        if line.formula != formula:
            shown.add_section()
            shown.add_row(line.formula, style="bold")
            formula = line.formula
        shown.add_row(*(row[i] for i in filled))
    return shown


def by_factor(curve: Sequence[Point]) -> Table:
    """Calls per token, a line for each voice and a column for each λ."""
    shown = Table(title="calls per token of M + λ·voice", title_justify="left")
    for column in ("voice", *(f"λ = {factor}" for factor in FACTORS)):
        shown.add_column(column, justify="right" if "λ" in column else "left")
    for voice in dict.fromkeys(point.voice for point in curve):
        own = [f"{point.calls:.2f}" for point in curve if point.voice == voice]
        shown.add_row(voice, *own)
    return shown


def draw(curve: Sequence[Point], path: Path) -> None:
    """Calls per token over λ, one line a voice. Raises RequestError where matplotlib is absent."""
    figure = picture(5.2, 3.4)
    axes = figure.subplots()
    for voice in dict.fromkeys(point.voice for point in curve):
        own = [point for point in curve if point.voice == voice]
        axes.plot([p.factor for p in own], [p.calls for p in own], marker="o", label=voice)
    axes.set_xlabel("λ in M + λ·voice")
    axes.set_ylabel("calls per token")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def _cells(line: Line) -> tuple[str, ...]:
    return (
        f"  {line.way}",
        _digits(line.calls),
        _digits(line.paper_calls),
        _digits(line.passes),
        f"{line.milliseconds:.2f}",
        _digits(line.ratio),
        "" if line.paper_milliseconds is None else f"{line.paper_milliseconds:.1f}",
        _digits(line.predicted),
        _digits(line.measured),
        line.plan,
    )


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _title(report: Report) -> str:
    counts = f"{report.parameters / 1e6:.1f} M parameters"
    if report.large is not None:
        counts += f", inflated to {report.large / 1e6:.1f} M"
    return (
        f"{report.model}: {counts}, {report.machine.threads} threads, up to {report.tokens} "
        "tokens a text; calls and passes per drawn token"
    )
