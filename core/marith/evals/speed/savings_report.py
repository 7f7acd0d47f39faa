"""Show the cost per token of each setup beside the paper's: tables, CSV and the figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from marith.console import counted, fixed, picture, print_table, say, terminal
from marith.errors import RequestError
from marith.evals.results import dataframe

if TYPE_CHECKING:
    import pandas

HEAD = (
    "formula", "", "calls", "paper", "passes", "ms", "ratio", "paper, ms", "predicted", "accepted",
    "plan",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SavingsLine:
    """The costs of a formula's texts in one setup. `way` is the name of the setup.

    `calls` and `passes` are per sampled token, and the token that ends a text counts too.
    `milliseconds` are per sampled token, the median over rounds. `ratio` is `milliseconds` divided
    by the value of the formula's first setup.
    `accepted` is the share of checked draft tokens that were accepted. `predicted` is the share
    that was expected: 1 − the total variation distance. In the section "lambda" the formula is
    M + λ·prompt, `way` is the name of the prompt, and `factor` is λ. A missing number is None.
    """

    section: str
    formula: str
    way: str
    factor: float | None
    milliseconds: float
    calls: float
    passes: float
    predicted: float | None = None
    accepted: float | None = None
    plan: str = ""
    ratio: float | None = None
    paper_calls: float | None = None
    paper_milliseconds: float | None = None


@dataclass(frozen=True, slots=True)
class Savings:
    """The results of a run: texts of up to `tokens` tokens, by torch on `threads` threads."""

    model: str
    threads: int
    tokens: int
    lines: tuple[SavingsLine, ...]

    def section(self, name: str) -> list[SavingsLine]:
        """Return the lines of a section."""
        return [line for line in self.lines if line.section == name]

    def to_dataframe(self) -> pandas.DataFrame:
        """Return a row for each line, with all of its numbers."""
        return dataframe([asdict(line) for line in self.lines])

    def show(self, csv: Path | None = None, plot: Path | None = None) -> None:
        """Print the table and the calls per token by λ; write `csv` and `plot`."""
        console = terminal()
        size = f"{counted(self.threads, 'thread')}, up to {self.tokens} tokens per text"
        say(console, [f"{self.model}, {size}; calls, passes and ms are per sampled token"])
        if table := self.section("table"):
            print_table(console, HEAD, [_cells(line) for line in table], left=(0, 1, 10))
        if curve := self.section("lambda"):
            names, factors = (
                list(dict.fromkeys(getattr(line, name) for line in curve))
                for name in ("way", "factor")
            )
            rows = [[n, *(fixed(one.calls) for one in curve if one.way == n)] for n in names]
            say(console, ["calls per token of M + λ·prompt"])
            print_table(console, ["prompt", *(f"λ = {one}" for one in factors)], rows, left=(0,))
        if csv is not None:
            self.to_dataframe().to_csv(csv, index=False)
        if plot is not None:
            self.draw(plot)

    def draw(self, path: Path) -> None:
        """Plot the calls per token against λ, with a line for each system prompt.

        Raises RequestError if matplotlib is missing, or if the section "lambda" was not measured.
        """
        curve = self.section("lambda")
        if not curve:
            problem = "a plot shows the section lambda, which was not measured"
            raise RequestError(f"{problem}: add 'lambda' to sections")
        figure = picture(5.2, 3.4)
        axes = figure.subplots()
        for name in dict.fromkeys(line.way for line in curve):
            points = [line for line in curve if line.way == name]
            factors = [line.factor or 0.0 for line in points]
            axes.plot(factors, [line.calls for line in points], marker="o", label=name)
        axes.set_xlabel("λ in M + λ·prompt")
        axes.set_ylabel("calls per token")
        axes.legend(fontsize=8)
        axes.grid(alpha=0.3)
        figure.savefig(path, dpi=110)


def _cells(line: SavingsLine) -> Sequence[str]:
    return (
        line.formula,
        line.way,
        fixed(line.calls),
        fixed(line.paper_calls),
        fixed(line.passes),
        fixed(line.milliseconds),
        fixed(line.ratio),
        fixed(line.paper_milliseconds, 1),
        fixed(line.predicted),
        fixed(line.accepted),
        line.plan,
    )
