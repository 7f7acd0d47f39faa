"""A report for people: one table, and one plot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table

from marith.errors import RequestError
from marith.evals.bench.bandwidth import Floor
from marith.evals.bench.report import Report, Result
from marith.showing import OURS, THEIRS, check_file, check_plot, picture, say, terminal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLES = {
    "terms": "one request: time a token",
    "concurrency": "four terms, many requests",
    "first-token": "time to the first token",
}
COLUMNS = ("", "ms", "ratio", "tokens/s", "first token, ms", "passes/token", "of the floor")
WIDTH = 120
PRINTED = Path("-")


def check_outputs(
    as_json: Path | None,
    plot: Path | None,
    sections: Sequence[str],
    plotted: Sequence[str] = tuple(TITLES),
) -> None:
    """Raise RequestError for a file that could not be written at the end."""
    check_file(as_json)
    if plot is not None and not set(sections) & set(plotted):
        raise RequestError(f"a plot shows {', '.join(plotted)}, not {', '.join(sections)!r} alone")
    check_plot(plot)


def show(report: Report, as_json: Path | None = None, plot: Path | None = None) -> None:
    """Print the tables and the floor, or with `-` the JSON; write what is to be written.

    The table is as wide as the terminal, and as it needs where there is none.
    """
    if plot is not None:
        draw(report, plot)
    shown: list[RenderableType] = [table(report)] if report.results else []
    if report.floor is not None:
        shown.append(_floor(report.floor))
    put_out(report.to_json(), as_json, WIDTH, _title(report), shown)


def put_out(
    data: str, as_json: Path | None, width: int, title: str, shown: Iterable[RenderableType]
) -> None:
    """Print a title and what is shown below it, and write the JSON; or with `-` print that alone.

    `width` is where there is no terminal.
    """
    console = terminal(width)
    if as_json == PRINTED:
        console.out(data, highlight=False)
        return
    if as_json is not None:
        as_json.write_text(data + "\n", encoding="utf-8")
    say(console, [title])
    for one in shown:
        console.print(one, highlight=False)


def table(report: Report) -> Table:
    """All sections below one another; a ratio is over the first line of its section.

    A column that nothing fills is left out.
    """
    rows = {result: _cells(result) for result in report.results}
    filled = [i for i in range(len(COLUMNS)) if any(cells[i] for cells in rows.values())]
    shown = Table()
    for i in filled:
        shown.add_column(COLUMNS[i], justify="right" if i else "left")
    for section, title in TITLES.items():
        if found := report.section(section):
            shown.add_row(title, style="bold")
            for result in found:
                shown.add_row(*(rows[result][i] for i in filled))
            shown.add_section()
    return shown


def _cells(result: Result) -> tuple[str, ...]:
    gained = result.section == "concurrency"
    return (
        f"  {result.name}",
        f"{result.milliseconds:.1f}",
        f"{result.ratio:.2f}",
        f"{result.per_second:.1f} ({1 / result.ratio:.1f}×)" if gained else "",
        "" if result.first_token is None else f"{result.first_token:.0f}",
        "" if result.passes_per_token is None else f"{result.passes_per_token:.2f}",
        "" if result.floor_share is None else f"{result.floor_share:.0%}",
    )


def _title(report: Report) -> str:
    parameters, threads = _short(report.parameters), _counted(report.machine.threads, "thread")
    title = f"{report.model}: {parameters} parameters, {threads}"
    if not report.results:
        return title
    return f"{title}, {report.tokens} tokens, medians of {_counted(report.rounds, 'round')}"


def _floor(floor: Floor) -> str:
    return (
        f"floor: {_short(floor.weight_bytes)}B of weights at {_short(floor.bytes_per_second)}B/s "
        f"are {_digits(floor.milliseconds)} ms a token"
    )


def _short(amount: float) -> str:
    """97012345 → `97 M`."""
    for size, prefix in ((1e9, " G"), (1e6, " M"), (1e3, " K")):
        if amount >= size:
            return _digits(amount / size) + prefix
    return f"{_digits(amount)} "


def _digits(value: float) -> str:
    """Three digits that count: more behind the point, the smaller it is."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def draw(report: Report, path: Path) -> None:
    """The sections side by side, in a file of the kind that the path's ending names.

    At least one section was timed. Raises RequestError where matplotlib is absent.
    """
    sections = [section for section in TITLES if report.section(section)]
    figure = picture(4.4 * len(sections), 3.2)
    row = figure.subplots(1, len(sections), squeeze=False)[0]
    for axes, section in zip(row, sections, strict=True):
        found = report.section(section)
        if section == "concurrency":
            _draw_gains(axes, found)
        else:
            _draw_bars(axes, found)
        axes.set_title(TITLES[section], fontsize=10)
        axes.tick_params(labelsize=8)
    if report.section("terms") and report.floor is not None:
        axes = figure.axes[0]
        axes.axvline(report.floor.milliseconds, color="black", linestyle=":", label="floor")
        axes.legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=110)


def _draw_bars(axes: Axes, found: list[Result]) -> None:
    """Milliseconds, the first contestant on top; the ratio stands at the end of each bar."""
    names = [result.name for result in found]
    colours = [OURS if name.startswith("marith") else THEIRS for name in names]
    bars = axes.barh(names, [result.milliseconds for result in found], color=colours)
    axes.bar_label(bars, [f" {result.ratio:.2f}" for result in found], fontsize=8)
    axes.margins(x=0.15)
    axes.invert_yaxis()
    axes.set_xlabel("ms", fontsize=8)


def _draw_gains(axes: Axes, found: list[Result]) -> None:
    """Tokens a second over the number of requests."""
    counts = [int(result.name.split()[0]) for result in found]
    speeds = [result.per_second for result in found]
    axes.plot(counts, speeds, color=OURS, marker="o")
    for count, speed, result in zip(counts, speeds, found, strict=True):
        axes.annotate(
            f"{1 / result.ratio:.1f}×", (count, speed), (0, 5), textcoords="offset points",
            ha="center", fontsize=8,
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.set_ylim(0, 1.15 * max(speeds))
    axes.set_xlabel("requests at once", fontsize=8)
    axes.set_ylabel("tokens/s", fontsize=8)
