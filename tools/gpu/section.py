"""The figures as two tables, and as the part of a page between two markers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

from marith.console import counted
from tools.gpu.measurements import TERMS, Figures, Lengths

BEGIN = "<!-- figures of `make gpu` -->"
END = "<!-- end of the figures of `make gpu` -->"
STEPS = (
    "parameters", "requests", "`generate`", "marith, 4 terms", "a step, steady", "graph alone",
    "steady / graph", "reads", "a step of `generate`, all rows",
)  # fmt: skip
PROMPTS = (
    "parameters", "requests", "whole answers", "`generate` and graphs", "ratio", "first token",
    "`generate`, 4 rows", "ratio",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Run:
    """Figures with their card, their date and the versions, and the names of those left out."""

    card: str
    versions: str
    date: str
    lengths: Lengths
    figures: Sequence[Figures]
    left_out: Sequence[str]


def steps_rows(run: Run) -> list[list[str]]:
    """Return the rows of the table of steps, below `STEPS`."""
    rows = []
    for one in run.figures:
        for requests, steps in sorted(one.steps.items()):
            beside, all_rows = (one.generate.get(count) for count in (requests, TERMS * requests))
            rows.append(
                [
                    _parameters(one),
                    str(requests),
                    _speed(requests, beside),
                    _speed(requests, steps.whole),
                    _milliseconds(steps.steady),
                    _milliseconds(steps.graph),
                    _ratio(steps.steady, steps.graph),
                    f"{steps.steady / one.read:.1f}",
                    _milliseconds(all_rows),
                ]
            )
    return rows


def prompt_rows(run: Run) -> list[list[str]]:
    """Return the rows of the table of long prompts, below `PROMPTS`."""
    rows = []
    for one in run.figures:
        for requests, prompts in sorted(one.prompts.items()):
            whole, first = prompts.whole, one.first
            cells = [f"{whole:.2f} s", _seconds(prompts.floor), _ratio(whole, prompts.floor)]
            if first is not None:
                ratio = _ratio(first.formula, first.generate)
                cells += [_milliseconds(first.formula), _milliseconds(first.generate), ratio]
            cells += [""] * (len(PROMPTS) - 2 - len(cells))
            rows.append([_parameters(one), str(requests), *cells])
    return rows


def section(run: Run) -> str:
    """Return the figures in Markdown, between the markers."""
    lengths = run.lengths
    about_steps = (
        f"Whole answers of {lengths.answer} tokens, in tokens a second. A steady step is a step "
        f"between the tokens {lengths.answer} and {lengths.steady}; its graph alone is replayed "
        f"over as many positions. *Reads* is the time of a steady step over the time to read the "
        f"weights once. The last column has {TERMS} rows for each request, as marith has:"
    )
    about_prompts = (
        f"Prompts of {lengths.prompt:,} tokens a term, and answers of {lengths.answer} tokens. "
        f"`generate` of as many rows makes one token, and the graph alone the others. The first "
        f"token is that of one request:"
    )
    measured = (
        f"Measured on {run.date} by `make gpu`, on one {run.card} with {run.versions}; medians of "
        f"{counted(lengths.rounds, 'round')}."
    )
    left_out = f"Left out: {', '.join(run.left_out)}." if run.left_out else ""
    parts = [
        BEGIN,
        _wrapped(about_steps),
        _table(STEPS, steps_rows(run)),
        _wrapped(about_prompts),
        _table(PROMPTS, prompt_rows(run)),
        _wrapped(f"{measured} {left_out}".strip()),
        END,
    ]
    return "\n\n".join(parts)


def write(run: Run, page: Path) -> None:
    """Replace the figures between the markers of a page by those of a run."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{str(page)!r} must have the lines {BEGIN!r} and {END!r}")
    page.write_text(before + section(run) + after, encoding="utf-8")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---:"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _wrapped(text: str) -> str:
    return fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _parameters(figures: Figures) -> str:
    billions = figures.parameters / 1e9
    return f"{billions:.1f} billion" if billions > 0.1 else f"{1e3 * billions:.1f} million"


def _speed(requests: int, step: float | None) -> str:
    return "" if step is None else f"{requests / step:.0f} tokens/s"


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.1f} ms"


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.2f} s"


def _ratio(seconds: float, floor: float | None) -> str:
    return "" if floor is None else f"{seconds / floor:.2f}"
