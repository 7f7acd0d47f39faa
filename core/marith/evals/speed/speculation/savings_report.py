"""What a token cost in each setup, beside the paper's figures: tables, JSON and the figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from marith.evals.reporting.evaluation_report import EvaluationReport
from marith.evals.reporting.numbers import fixed
from marith.evals.reporting.table import Table
from marith.evals.speed.benchmark_results import Machine, results
from marith.evals.speed.rounds import Sample
from marith.evals.speed.speculation.drafting_setups import Tally
from marith.evals.speed.speculation.factor_curve import FactorPoint
from marith.showing import picture

WIDTH = 150
TITLES = {
    "table": "the paper's table (ms a token over whole texts)",
    "auto": '"auto" against no drafts (ms a token after a text\'s first)',
}
HEAD = (
    "", "calls", "paper", "passes", "ms", "ratio", "paper, ms", "predicted", "accepted", "plan",
)  # fmt: skip
PLAN = len(HEAD) - 1


@dataclass(frozen=True, slots=True)
class SavingsLine:
    """One setup for the texts of one formula; `way` is its name.

    `calls` and `passes` are per drawn token, the one that ends a text included. `milliseconds` is
    the median of `samples`, one a round; in the table they are over whole texts with their
    prompts, elsewhere over what follows a text's first token. `ratio` is over the formula's first
    line. Of the drafted tokens that were checked, the share `measured` was accepted, and the share
    `predicted`, 1 − the total variation, should have been. None where there is no such number.
    """

    section: str
    formula: str
    way: str
    milliseconds: float
    ratio: float
    samples: tuple[float, ...]
    calls: float | None = None
    passes: float | None = None
    predicted: float | None = None
    measured: float | None = None
    plan: str = ""
    paper_calls: float | None = None
    paper_milliseconds: float | None = None


@dataclass(frozen=True, slots=True)
class Savings:
    """A whole run. `parameters` counts the model's."""

    model: str
    parameters: int
    tokens: int
    machine: Machine
    lines: tuple[SavingsLine, ...] = ()
    curve: tuple[FactorPoint, ...] = ()

    def section(self, name: str) -> list[SavingsLine]:
        """The lines of one section, in the order in which they were measured."""
        return [line for line in self.lines if line.section == name]

    def report(self) -> EvaluationReport:
        """A table for each section, and one of calls by λ."""
        tables = [table(name, lines) for name in TITLES if (lines := self.section(name))]
        if self.curve:
            tables.append(by_factor(self.curve))
        return EvaluationReport(self._title(), tables, asdict(self))

    def _title(self) -> str:
        counts = f"{self.parameters / 1e6:.1f} M parameters"
        return (
            f"{self.model}: {counts}, {self.machine.threads} threads, up to {self.tokens} "
            "tokens a text; calls and passes per drawn token"
        )


def table(section: str, lines: Sequence[SavingsLine]) -> Table:
    """The lines of a section, in groups by formula."""
    groups: dict[int, str] = {}
    for i, line in enumerate(lines):
        if i == 0 or line.formula != lines[i - 1].formula:
            groups[i] = line.formula
    rows = [_cells(line) for line in lines]
    return Table(HEAD, rows, left=(0, PLAN), title=TITLES[section], groups=groups).filled()


def by_factor(curve: Sequence[FactorPoint]) -> Table:
    """Calls per token, a line for each system prompt and a column for each λ."""
    rows = [
        [name, *(fixed(point.calls) for point in curve if point.voice == name)]
        for name in dict.fromkeys(point.voice for point in curve)
    ]
    factors = dict.fromkeys(point.factor for point in curve)
    head = ["prompt", *(f"λ = {factor}" for factor in factors)]
    return Table(head, rows, title="calls per token of M + λ·prompt")


def draw(curve: Sequence[FactorPoint], path: Path) -> None:
    """Calls per token over λ, one line a system prompt. Raises RequestError without matplotlib."""
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


def lines(
    section: str,
    formula: str,
    samples: Mapping[str, Sequence[Sample]],
    tallies: Mapping[str, Tally],
    plans: Mapping[str, str] | None = None,
) -> list[SavingsLine]:
    """A line for each variant; the first is what the others are measured by."""
    return [
        SavingsLine(
            section,
            formula,
            result.name,
            result.milliseconds,
            result.ratio,
            result.samples,
            *_per_token(tallies.get(result.name)),
            plan=(plans or {}).get(result.name, ""),
        )
        for result in results(section, samples)
    ]


def _per_token(
    tally: Tally | None,
) -> tuple[float | None, float | None, float | None, float | None]:
    return tally.per_token() if tally else (None, None, None, None)  # a baseline counts no calls


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
