"""What `marith bench` prints, writes and draws: a table and a plot for each section."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.bandwidth import Floor
from marith.evals.reporting.evaluation_report import EvaluationReport
from marith.evals.reporting.numbers import counted, fixed
from marith.evals.reporting.table import Table
from marith.evals.speed.benchmark_results import Machine, Result
from marith.showing import OURS, THEIRS, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLES = {
    "terms": "one request: time a token",
    "step": "a step, beside its products alone",
    "concurrency": "four terms, many requests",
    "drafts": "four terms, with drafts beside without",
    "first-token": "time to the first token",
    "mixed": "short chats beside a long prompt",
    "memory": "one term, longer texts: what the process grows by",
    "start": "a new process",
    "peers": "one model, many requests, beside others",
    "step-peers": "a step, beside one of llama.cpp",
}
HEAD = (
    "", "ms", "ratio", "tokens/s", "first token, ms", "passes/token", "accepted",
    "outside the model, ms", "tokens held, MB", "resident, MB", "of the floor",
)  # fmt: skip
SHARED = (
    "concurrency",
    "drafts",
    "peers",
)  # sections where many requests share the tokens of a second
WIDTH = 120


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A whole run."""

    model: str
    parameters: int
    tokens: int
    rounds: int
    machine: Machine
    results: tuple[Result, ...]
    floor: Floor | None = None
    numbers: str = "float32"  # of weights, as everybody has them; in the engine, if others
    notes: tuple[str, ...] = ()

    def section(self, name: str) -> list[Result]:
        """The results of one section, in the order of their variants."""
        return [result for result in self.results if result.section == name]

    def report(self) -> EvaluationReport:
        """The tables, the floor and the processor; tokens a second where requests share them."""
        data: dict[str, Any] = asdict(self)
        for result, plain in zip(self.results, data["results"], strict=True):
            shared = result.section in SHARED
            plain["tokens_per_second"] = result.per_second if shared else None
        floor = [_floor(self.floor)] if self.floor else []
        notes = [*floor, *self.notes, _processor(self.machine)]
        return EvaluationReport(self._title(), self.tables(), data, notes=notes)

    def tables(self) -> list[Table]:
        """A table for each section, of the columns that it fills."""
        return [
            Table(HEAD, [*map(_cells, results)], title=title).filled()
            for section, title in TITLES.items()
            if (results := self.section(section))
        ]

    def _title(self) -> str:
        threads = counted(self.machine.threads, "thread")
        title = f"{self.model}: {_short(self.parameters)} parameters, {threads}"
        if not self.results:
            return title
        if self.numbers != "float32":
            title += f", {self.numbers}"
        return f"{title}, {self.tokens} tokens, medians of {counted(self.rounds, 'round')}"


def draw(benchmark: Benchmark, path: Path) -> None:
    """The sections, three a row, in a file of the kind that the path's ending names.

    At least one section was timed. Raises RequestError where matplotlib is absent.
    """
    sections = [section for section in TITLES if benchmark.section(section)]
    columns, rows = min(3, len(sections)), -(-len(sections) // 3)
    figure = picture(4.4 * columns, 3.2 * rows)
    places = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in places[len(sections) :]:
        axes.remove()
    for axes, section in zip(places, sections, strict=False):
        results = benchmark.section(section)
        if section == "concurrency":
            _draw_gains(axes, results)
        elif section == "memory":
            _draw_sizes(axes, results)
        else:
            _draw_bars(axes, results)
        axes.set_title(TITLES[section], fontsize=10)
        axes.tick_params(labelsize=8)
    if benchmark.section("terms") and benchmark.floor is not None:
        axes = figure.axes[0]
        axes.axvline(benchmark.floor.milliseconds, color="black", linestyle=":", label="floor")
        axes.legend(fontsize=8, loc="lower right")
    figure.savefig(path, dpi=110)


def _draw_bars(axes: Axes, results: list[Result]) -> None:
    """Milliseconds, the first variant on top; the ratio stands at the end of each bar."""
    names = [result.name for result in results]
    colours = [OURS if name.startswith("marith") else THEIRS for name in names]
    bars = axes.barh(names, [result.milliseconds for result in results], color=colours)
    axes.bar_label(bars, [f" {result.ratio:.2f}" for result in results], fontsize=8)
    axes.margins(x=0.15)
    axes.invert_yaxis()
    axes.set_xlabel("ms", fontsize=8)


def _draw_gains(axes: Axes, results: list[Result]) -> None:
    """Tokens a second over the number of requests."""
    counts = [int(result.name.split()[0]) for result in results]
    speeds = [result.per_second for result in results]
    axes.plot(counts, speeds, color=OURS, marker="o")
    for count, speed, result in zip(counts, speeds, results, strict=True):
        axes.annotate(
            f"{1 / result.ratio:.1f}×", (count, speed), (0, 5), textcoords="offset points",
            ha="center", fontsize=8,
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.set_ylim(0, 1.15 * max(speeds))
    axes.set_xlabel("requests at once", fontsize=8)
    axes.set_ylabel("tokens/s", fontsize=8)


def _draw_sizes(axes: Axes, results: list[Result]) -> None:
    """What texts weigh, and what the process grew by, over their number."""
    counts = [int(result.name.split()[0]) for result in results]
    for label, colour, sizes in (
        ("tokens held", THEIRS, [result.tokens_bytes for result in results]),
        ("resident", OURS, [result.resident for result in results]),
    ):
        megabytes = [(size or 0.0) / 1e6 for size in sizes]
        axes.plot(counts, megabytes, color=colour, marker="o", label=label)
    axes.set_xlabel("requests at once", fontsize=8)
    axes.set_ylabel("MB", fontsize=8)
    axes.legend(fontsize=8)


def _cells(result: Result) -> tuple[str, ...]:
    shared, sizes = result.section in SHARED, (result.tokens_bytes, result.resident)
    return (
        result.name,
        f"{result.milliseconds:.1f}",
        f"{result.ratio:.2f}",
        f"{result.per_second:.1f} ({1 / result.ratio:.1f}×)" if shared else "",
        fixed(result.first_token, 0),
        fixed(result.passes_per_token),
        "" if result.acceptance is None else f"{result.acceptance:.0%}",
        fixed(result.host),
        *("" if size is None else f"{size / 1e6:.1f}" for size in sizes),
        "" if result.floor_share is None else f"{result.floor_share:.0%}",
    )


def _floor(floor: Floor) -> str:
    return (
        f"floor: {_short(floor.weight_bytes)}B of weights at {_short(floor.bytes_per_second)}B/s "
        f"are {_digits(floor.milliseconds)} ms a token"
    )


def _processor(machine: Machine) -> str:
    flags = ", ".join(machine.flags) or "none of those that products use"
    return f"processor: {machine.processor}, with {flags}; torch {machine.torch}"


def _short(amount: float) -> str:
    """97012345 → `97 M`."""
    for size, prefix in ((1e9, " G"), (1e6, " M"), (1e3, " K")):
        if amount >= size:
            return _digits(amount / size) + prefix
    return f"{_digits(amount)} "


def _digits(value: float) -> str:
    """Three digits that count: more behind the point, the smaller it is."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
