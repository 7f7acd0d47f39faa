"""What a token cost in each setup, beside the paper's figures: tables, JSON and the figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from marith.evals.reporting.evaluation_report import EvaluationReport
from marith.evals.reporting.numbers import counted, fixed
from marith.evals.reporting.table import Table
from marith.showing import picture

WIDTH = 150
TITLES = {"table": "the paper's table", "auto": '"auto" against no drafts'}
HEAD = (
    "", "calls", "paper", "passes", "ms", "ratio", "paper, ms", "predicted", "accepted", "plan",
)  # fmt: skip
PLAN = len(HEAD) - 1


@dataclass(frozen=True, slots=True)
class SavingsLine:
    """One setup for the texts of one formula; `way` is its name.

    `calls` and `passes` are per drawn token, the one that ends a text included. `milliseconds` is
    the median of `samples`, one a round, over whole texts with their prompts. `ratio` is over the
    formula's first line. Of the drafted tokens that were checked, the share `measured` was
    accepted, and the share `predicted`, 1 − the total variation, should have been. None where there
    is no such number.
    """

    section: str
    formula: str
    way: str
    milliseconds: float
    ratio: float
    samples: tuple[float, ...]
    calls: float
    passes: float
    predicted: float | None = None
    measured: float | None = None
    plan: str = ""
    paper_calls: float | None = None
    paper_milliseconds: float | None = None


@dataclass(frozen=True, slots=True)
class FactorPoint:
    """Calls and passes per token of M + λ·M_a, and the plan that it was calibrated to.

    `voice` is the name of the system prompt, and `factor` is λ.
    """

    voice: str
    factor: float
    calls: float
    passes: float
    predicted: float | None
    measured: float | None
    plan: str


@dataclass(frozen=True, slots=True)
class Savings:
    """A whole run: texts of up to `tokens` tokens, by torch on `threads` threads."""

    model: str
    threads: int
    tokens: int
    lines: tuple[SavingsLine, ...] = ()
    curve: tuple[FactorPoint, ...] = ()

    def report(self) -> EvaluationReport:
        """Return a table for each section, and one of calls by λ."""
        title = (
            f"{self.model}, {counted(self.threads, 'thread')}, up to {self.tokens} tokens a text; "
            "calls, passes and ms are per drawn token"
        )
        sections = {name: [one for one in self.lines if one.section == name] for name in TITLES}
        tables = [_table(TITLES[name], lines) for name, lines in sections.items() if lines]
        if self.curve:
            tables.append(_by_factor(self.curve))
        return EvaluationReport(title, tables, asdict(self))


def draw(curve: Sequence[FactorPoint], path: Path) -> None:
    """Draw calls per token over λ, one line a system prompt.

    Raises RequestError without matplotlib.
    """
    figure = picture(5.2, 3.4)
    axes = figure.subplots()
    for name in dict.fromkeys(point.voice for point in curve):
        points = [point for point in curve if point.voice == name]
        axes.plot([p.factor for p in points], [p.calls for p in points], marker="o", label=name)
    axes.set_xlabel("λ in M + λ·prompt")
    axes.set_ylabel("calls per token")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def _table(title: str, lines: Sequence[SavingsLine]) -> Table:
    """Return the lines of a section, in groups by formula."""
    groups: dict[int, str] = {}
    for i, line in enumerate(lines):
        if i == 0 or line.formula != lines[i - 1].formula:
            groups[i] = line.formula
    rows = [_cells(line) for line in lines]
    return Table(HEAD, rows, left=(0, PLAN), title=title, groups=groups).filled()


def _by_factor(curve: Sequence[FactorPoint]) -> Table:
    """Return calls per token, a line for each system prompt and a column for each λ."""
    rows = [
        [name, *(fixed(point.calls) for point in curve if point.voice == name)]
        for name in dict.fromkeys(point.voice for point in curve)
    ]
    factors = dict.fromkeys(point.factor for point in curve)
    head = ["prompt", *(f"λ = {factor}" for factor in factors)]
    return Table(head, rows, title="calls per token of M + λ·prompt")


def _cells(line: SavingsLine) -> tuple[str, ...]:
    return (
        f"  {line.way}",
        fixed(line.calls),
        fixed(line.paper_calls),
        fixed(line.passes),
        fixed(line.milliseconds),
        fixed(line.ratio),
        fixed(line.paper_milliseconds, 1),
        fixed(line.predicted),
        fixed(line.measured),
        line.plan,
    )
