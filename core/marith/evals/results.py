"""Show the results of an evaluation: a table of formulas, their texts, and a plot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from marith.console import OURS, counted, picture, print_table, say, terminal
from marith.errors import RequestError
from marith.evals.formulas import NamedFormula
from marith.evals.statistics import Difference, Estimate, difference, estimate

if TYPE_CHECKING:
    import pandas

CSV, BY_TEXT = "table.csv", "by_text.csv"
# This mark follows a p-value if the interval of the difference contains zero.
HELD = "="
# This mark follows a mean that one text dominates.
OUTLIER = "†"
_LEGEND = {
    HELD: f"{HELD}: the interval of the difference from the first formula contains zero",
    OUTLIER: f"{OUTLIER}: one text adds more than a fifth of this mean; rely on the median",
}
# More significant digits of a classifier's probability would depend on the machine.
_SIGNIFICANT = 4


@dataclass(frozen=True, slots=True)
class TextRow:
    """A generated text with its value of each measure.

    `row` is the row of its prompt in the data, and `sample` counts the texts of that prompt from 1.
    """

    row: int
    sample: int
    message: str
    text: str
    values: Mapping[str, float]


@dataclass(frozen=True)
class Measured:
    """The texts of one formula, in the order of their prompts, and the paper's results for it."""

    line: NamedFormula
    texts: tuple[TextRow, ...]
    texts_a_second: float = math.nan
    paper: str = ""

    def by_prompt(self, measure: str) -> dict[int, float]:
        """Return the mean over the samples of each prompt. A prompt without numbers is left out."""
        rows: dict[int, list[float]] = {}
        for text in self.texts:
            if not math.isnan(value := text.values[measure]):
                rows.setdefault(text.row, []).append(value)
        return {row: fmean(values) for row, values in rows.items()}

    def estimate(self, measure: str) -> Estimate:
        """Return the mean of `measure` over the prompts, with its interval, and the median."""
        return estimate([*self.by_prompt(measure).values()])


@dataclass(frozen=True)
class Results:
    """The results of several formulas. All others are compared with the first one.

    `better` maps a measure to "lower" or "higher".
    """

    title: str
    rows: tuple[Measured, ...]
    better: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the measures."""
        return tuple(self.rows[0].texts[0].values) if self.rows and self.rows[0].texts else ()

    @cached_property
    def estimates(self) -> dict[tuple[str, str], Estimate]:
        """The estimate of each measure for each formula, by (name of the formula, measure)."""
        return {
            (row.line.name, name): row.estimate(name) for row in self.rows for name in self.measures
        }

    @cached_property
    def differences(self) -> dict[tuple[str, str], Difference]:
        """The difference from the first formula, by (name of the formula, measure)."""
        found = {}
        for row in self.rows[1:]:
            for name in self.measures:
                ours, first = row.by_prompt(name), self.rows[0].by_prompt(name)
                # A measure may have no number for some texts, so only shared prompts are compared.
                shared = [at for at in first if at in ours]
                found[row.line.name, name] = difference(
                    [first[at] for at in shared], [ours[at] for at in shared]
                )
        return found

    def to_dataframe(self) -> pandas.DataFrame:
        """Return a row for each formula: means, intervals, medians, counts and p-values."""
        return dataframe([self._record(row) for row in self.rows])

    def texts_to_dataframe(self) -> pandas.DataFrame:
        """Return a row for each text: formula, prompt, text, and the value of every measure."""
        return dataframe(
            [
                {
                    "name": row.line.name,
                    "formula": row.line.formula,
                    **{name: value for name, value in asdict(text).items() if name != "values"},
                    **text.values,
                }
                for row in self.rows
                for text in row.texts
            ]
        )

    def show(self, out: Path | None = None, plot: Path | None = None) -> None:
        """Print the table; write it and all texts to the folder `out`, and the plot to `plot`."""
        console, (head, *rows) = terminal(), self._cells()
        prompts = {text.row for row in self.rows for text in row.texts}
        say(console, [f"{self.title}, {counted(len(prompts), 'prompt')}"])
        print_table(console, head, rows, left=(0, 1))
        marks = "".join(cell for row in rows for cell in row[2:])
        say(console, [sentence for mark, sentence in _LEGEND.items() if mark in marks])
        say(console, self.notes)
        if out is not None:
            self.write(out)
        if plot is not None:
            self.draw(plot)

    def write(self, out: Path) -> None:
        """Write the table and all texts as CSV files to the folder `out`."""
        out.mkdir(parents=True, exist_ok=True)
        self.to_dataframe().to_csv(out / CSV, index=False)
        self.texts_to_dataframe().to_csv(out / BY_TEXT, index=False)

    def draw(self, path: Path) -> None:
        """Plot each measure against perplexity, with intervals.

        Raises RequestError if matplotlib is missing, or if perplexity is the only measure.
        """
        names = [name for name in self.measures if name != "perplexity"]
        if not names:
            problem = "a plot shows measures against perplexity, and there is only perplexity"
            raise RequestError(f"{problem}: add a measure, such as length")
        image = picture(2.2 + 4.2 * len(names), 4.2)
        across = [self.estimates[row.line.name, "perplexity"] for row in self.rows]
        for name, axes in zip(names, image.subplots(1, len(names), squeeze=False)[0], strict=True):
            ups = [self.estimates[row.line.name, name] for row in self.rows]
            places = [one.mean for one in across], [one.mean for one in ups]
            axes.errorbar(*places, _sides(ups), _sides(across), "o", color=OURS)
            for row, *place in zip(self.rows, *places, strict=True):
                axes.annotate(row.line.name, place, (5, 5), textcoords="offset points", fontsize=8)
            axes.set_xlabel(self._label("perplexity"))
            axes.set_ylabel(self._label(name))
            axes.grid(alpha=0.3)
        image.savefig(path, dpi=110)

    def _label(self, measure: str) -> str:
        better = self.better.get(measure)
        return f"{measure}, {better} is better" if better else measure

    def _record(self, row: Measured) -> dict[str, Any]:
        record: dict[str, Any] = {"name": row.line.name, "formula": row.line.formula}
        for name in self.measures:
            numbers = asdict(self.estimates[row.line.name, name])
            compared = self.differences.get((row.line.name, name))
            if compared is not None:
                numbers |= {f"difference {kind}": v for kind, v in asdict(compared).items()}
            record |= {f"{name} {kind}": value for kind, value in numbers.items()}
        return {**record, "texts a second": row.texts_a_second}

    def _cells(self) -> list[list[str]]:
        arrows = {"lower": " ↓", "higher": " ↑"}
        head = ["", "formula"]
        for name in self.measures:
            head += [f"{name}{arrows.get(self.better.get(name, ''), '')}", "median", "p"]
        return [[*head, "texts/s", "paper"], *map(self._row, self.rows)]

    def _row(self, row: Measured) -> list[str]:
        name, formula = row.line.name, row.line.formula
        cells = [name, "" if formula == name else formula]
        for measure in self.measures:
            numbers, compared = self.estimates[name, measure], self.differences.get((name, measure))
            interval = f" [{digits(numbers.low)}, {digits(numbers.high)}]"
            mark = OUTLIER if numbers.outlier_dominated else ""
            held = HELD if compared and compared.low <= 0 <= compared.high else ""
            cells += [
                digits(numbers.mean) + mark + interval if numbers.count else "",
                digits(numbers.median),
                f"{compared.p:.2g}{held}" if compared else "",
            ]
        return [*cells, digits(row.texts_a_second), row.paper]


def digits(value: float) -> str:
    """Return `value` with four significant digits and at most four decimals; "" for NaN."""
    if math.isnan(value):
        return ""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    behind = _SIGNIFICANT - 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{max(0, min(behind, _SIGNIFICANT))}f}"


def _sides(estimates: Sequence[Estimate]) -> list[list[float]]:
    """Return the lengths of the error bars below and above the means."""
    return [[one.mean - one.low for one in estimates], [one.high - one.mean for one in estimates]]


def dataframe(records: Sequence[Mapping[str, Any]]) -> pandas.DataFrame:
    """Return `records` as a data frame. Raises RequestError if pandas is not installed."""
    try:
        # pandas belongs to an extra, and is slow to import.
        import pandas
    except ModuleNotFoundError:
        raise RequestError("tables need pandas: pip install 'marith[evals]'") from None
    return pandas.DataFrame(list(records))
