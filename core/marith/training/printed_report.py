"""A report for people: one table, what one should know, and one plot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.table import Table

from marith.showing import OURS, THEIRS, picture, say, terminal
from marith.training.report import COLUMNS, Report, cells

WIDTH = 120
SERIES = {"accuracy": OURS, "auc": THEIRS}
NAMES = {"accuracy": "accuracy", "auc": "AUC-ROC"}


def show(report: Report, out: Path, plot: Path | None = None) -> None:
    """Print what was learned from what, the table, and how a formula names the classifier."""
    if plot is not None:
        draw(report, plot)
    console = terminal(WIDTH)
    say(console, _summary(report))
    console.print(table(report), highlight=False)
    term = f'classifier("{out}", label="{report.classes[-1]}")'
    say(console, [f"in a formula: {term}"])


def table(report: Report) -> Table:
    """A line for each prefix length."""
    result = Table(title="held out, by tokens read", title_justify="left")
    for column in COLUMNS:
        result.add_column(column, justify="right")
    for line in report.lines:
        result.add_row(*cells(line))
    return result


def draw(report: Report, path: Path) -> None:
    """Accuracy and AUC-ROC over the prefix length. Raises RequestError without matplotlib."""
    figure = picture(5.2, 3.4)
    axes = figure.subplots()
    places = range(len(report.lines))
    for name, colour in SERIES.items():
        values = [getattr(line, name) for line in report.lines]
        axes.plot(places, values, marker="o", color=colour, label=NAMES[name])
    axes.set_xticks(list(places), [cells(line)[0] for line in report.lines])
    axes.set_xlabel("tokens read")
    axes.set_ylabel("held out")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def _summary(report: Report) -> list[str]:
    way = "every prefix" if report.every_prefix else "a random prefix of each"
    return [
        f"{report.base}: learned {way} of {_counted(report.learned)}; held out "
        f"{_counted(report.held_out)}",
        f"{report.epoch_size} texts an epoch, {report.steps} steps in {report.seconds:.1f} s, "
        f"loss {report.loss:.4f}",
        *report.notices,
    ]


def _counted(counts: Mapping[str, int]) -> str:
    """`60 texts (negative: 17, positive: 43)`."""
    by_class = ", ".join(f"{name}: {count}" for name, count in counts.items())
    return f"{sum(counts.values())} texts ({by_class})"
