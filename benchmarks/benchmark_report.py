"""Print and draw a run: a table and a plot for each section."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.benchmark import Benchmark
from benchmarks.benchmark_results import Result
from marith.console import OURS, THEIRS, fixed, picture, print_table, say, terminal

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
# In these sections many requests share the tokens per second.
SHARED = ("concurrency", "drafts", "peers")


def show(benchmark: Benchmark) -> None:
    """Print the settings, a table for each section with its columns, and the floor."""
    console, settings = terminal(120), benchmark.settings
    parameters, threads = f"{benchmark.parameters / 1e6:.1f} M", benchmark.machine.threads
    say(
        console,
        [
            f"{benchmark.model}: {parameters} parameters, {threads} threads, {settings.dtype}, "
            f"{settings.tokens} tokens, medians of {settings.rounds} rounds"
        ],
    )
    for section, title in TITLES.items():
        if results := benchmark.section(section):
            say(console, [title])
            print_table(console, HEAD, [*map(_cells, results)], left=(0,))
    if floor := benchmark.floor:
        weights, speed = floor.weight_bytes / 1e6, floor.bytes_per_second / 1e9
        took = f"{floor.milliseconds:.3g} ms a token"
        say(console, [f"floor: {weights:.1f} MB of weights at {speed:.1f} GB/s are {took}"])
    machine = benchmark.machine
    processor = f"{machine.processor}, with {', '.join(machine.flags) or 'none of FLAGS'}"
    say(console, [*benchmark.notes, f"processor: {processor}; torch {machine.torch}"])


def draw(benchmark: Benchmark, path: Path) -> None:
    """Draw the sections, three in a row, in a file whose ending names its format."""
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
    """Draw milliseconds, with the first variant on top and the ratio at the end of each bar."""
    names = [result.name for result in results]
    colours = [OURS if name.startswith("marith") else THEIRS for name in names]
    bars = axes.barh(names, [result.milliseconds for result in results], color=colours)
    axes.bar_label(bars, [f" {result.ratio:.2f}" for result in results], fontsize=8)
    axes.margins(x=0.15)
    axes.invert_yaxis()
    axes.set_xlabel("ms", fontsize=8)


def _draw_gains(axes: Axes, results: list[Result]) -> None:
    """Draw tokens per second over the number of requests."""
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
    """Draw the size of texts, and the growth of the process, over the number of texts."""
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
