"""What an evaluation measured: a table of formulas, their texts, and a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import rich.table
from rich.text import Text

from marith.errors import RequestError
from marith.evals.formulas import NamedFormula
from marith.evals.statistics import Difference, Figure, difference, figure
from marith.showing import NO_PLOT, OURS, can_draw, picture, say, terminal

if TYPE_CHECKING:
    import pandas

CSV, BY_TEXT, MARKDOWN, PLOT = "table.csv", "by_text.csv", "table.md", "plot.png"
HELD = "="  # a difference whose interval holds zero
ONE_TEXT = "†"  # a mean that one text decides
_LEGEND = {
    HELD: f"{HELD}: the interval of the difference from the first formula holds zero",
    ONE_TEXT: f"{ONE_TEXT}: one text makes more than a fifth of this mean; the median says more",
}
_SIGNIFICANT = 4  # digits; a classifier's last digits depend on the machine


@dataclass(frozen=True, slots=True)
class TextRow:
    """A text, the `sample`-th answer to the prompt of a row, with its value of every measure."""

    row: int
    sample: int
    message: str
    text: str
    values: Mapping[str, float]


@dataclass(frozen=True)
class Measured:
    """A formula's texts, in the order of their prompts, and how many there were a second."""

    line: NamedFormula
    texts: tuple[TextRow, ...]
    texts_a_second: float = math.nan
    paper: str = ""

    def by_prompt(self, measure: str) -> dict[int, float]:
        """Return each prompt's mean over its samples; a prompt without a number is left out."""
        rows: dict[int, list[float]] = {}
        for text in self.texts:
            if not math.isnan(value := text.values[measure]):
                rows.setdefault(text.row, []).append(value)
        return {row: fmean(values) for row, values in rows.items()}

    def figure(self, measure: str) -> Figure:
        """Return the mean over prompts with its interval, and the median."""
        return figure([*self.by_prompt(measure).values()])


@dataclass(frozen=True)
class Results:
    """The figures of every formula; the first is what the others are compared with."""

    title: str
    rows: tuple[Measured, ...]
    better: Mapping[str, str] = field(default_factory=dict)  # by measure: "lower" or "higher"
    notes: tuple[str, ...] = ()

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the measures."""
        return tuple(self.rows[0].texts[0].values) if self.rows and self.rows[0].texts else ()

    @cached_property
    def figures(self) -> dict[tuple[str, str], Figure]:
        """The figures, by the name of the formula and the measure."""
        return {
            (row.line.name, name): row.figure(name) for row in self.rows for name in self.measures
        }

    @cached_property
    def differences(self) -> dict[tuple[str, str], Difference]:
        """The differences from the first formula, prompt by prompt."""
        found = {}
        for row in self.rows[1:]:
            for name in self.measures:
                ours, first = row.by_prompt(name), self.rows[0].by_prompt(name)
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
        """Print the table; write the table and every text as CSV to `out`, and the picture."""
        console = terminal()
        head, *rows = self._cells()
        table = rich.table.Table()
        for i, name in enumerate(head):
            table.add_column(name, justify="left" if i < 2 else "right", overflow="fold")
        for cells in rows:
            table.add_row(*map(Text, cells))
        say(console, [self.title])
        console.print(table, highlight=False)
        say(console, [*self._legend(rows), *self.notes])
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            self.to_dataframe().to_csv(out / CSV, index=False)
            self.texts_to_dataframe().to_csv(out / BY_TEXT, index=False)
            (out / MARKDOWN).write_text(self.to_markdown(), encoding="utf-8")
            if can_draw():
                self.draw(out / PLOT)
            else:
                say(console, [NO_PLOT])
        if plot is not None:
            self.draw(plot)

    def to_markdown(self) -> str:
        """Return the table as Markdown, with its title and its notes."""
        head, *rows = self._cells()
        rule = ["---" if i < 2 else "---:" for i in range(len(head))]
        lines = (
            " | ".join(cell.replace("|", "\\|") for cell in row) for row in (head, rule, *rows)
        )
        table = "\n".join(f"| {line} |" for line in lines)
        notes = "\n".join(f"- {note}" for note in (*self._legend(rows), *self.notes))
        return "\n\n".join(filter(None, (self.title, table, notes))) + "\n"

    def draw(self, path: Path) -> None:
        """Write a picture: two measures against each other, or a panel for each."""
        names, lines = self.measures, [row.line.name for row in self.rows]
        against = len(names) == 2
        panels = 1 if against else len(names)
        image = picture(2.2 + 4.2 * panels, 4.2)
        for at, axes in enumerate(image.subplots(1, panels, squeeze=False)[0]):
            ups = [self.figures[line, names[0 if against else at]] for line in lines]
            if against:
                across = [self.figures[line, names[1]] for line in lines]
                sides = _sides(across), _sides(ups)
                means = [one.mean for one in across]
                axes.errorbar(means, [one.mean for one in ups], sides[1], sides[0], "o", color=OURS)
                for line, x, y in zip(lines, across, ups, strict=True):
                    axes.annotate(
                        line, (x.mean, y.mean), (5, 5), textcoords="offset points", fontsize=8
                    )
                axes.set_xlabel(self._label(names[1]))
                axes.set_ylabel(self._label(names[0]))
            else:
                places = range(len(lines))
                axes.errorbar([one.mean for one in ups], places, None, _sides(ups), "o", color=OURS)
                axes.set_yticks(places, lines)
                axes.invert_yaxis()
                axes.set_xlabel(self._label(names[at]))
            axes.grid(alpha=0.3)
        image.savefig(path, dpi=110)

    def _label(self, measure: str) -> str:
        better = self.better.get(measure)
        return f"{measure}, {better} is better" if better else measure

    def _record(self, row: Measured) -> dict[str, Any]:
        record: dict[str, Any] = {"name": row.line.name, "formula": row.line.formula}
        for name in self.measures:
            numbers = asdict(self.figures[row.line.name, name])
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
        head += ["texts/s", "paper"]
        rows = [self._row(row) for row in self.rows]
        kept = [i for i in range(len(head)) if i == 0 or any(row[i] for row in rows)]
        return [[cells[i] for i in kept] for cells in (head, *rows)]

    def _row(self, row: Measured) -> list[str]:
        name, formula = row.line.name, row.line.formula
        cells = [name, "" if formula == name else formula]
        for measure in self.measures:
            numbers, compared = self.figures[name, measure], self.differences.get((name, measure))
            interval = f" [{digits(numbers.low)}, {digits(numbers.high)}]"
            mark = ONE_TEXT if numbers.one_text else ""
            held = HELD if compared and compared.low <= 0 <= compared.high else ""
            cells += [
                digits(numbers.mean) + mark + interval if numbers.count else "",
                digits(numbers.median),
                f"{compared.p:.2g}{held}" if compared else "",
            ]
        return [*cells, digits(row.texts_a_second), row.paper]

    def _legend(self, rows: Sequence[Sequence[str]]) -> list[str]:
        said = "".join(cell for row in rows for cell in row[2:])
        return [sentence for mark, sentence in _LEGEND.items() if mark in said]


def digits(value: float) -> str:
    """Return a number with the digits that count, at most four behind the point; "" for NaN."""
    if math.isnan(value):
        return ""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    behind = _SIGNIFICANT - 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{max(0, min(behind, _SIGNIFICANT))}f}"


def _sides(figures: Sequence[Figure]) -> list[list[float]]:
    return [[one.mean - one.low for one in figures], [one.high - one.mean for one in figures]]


def dataframe(records: Sequence[Mapping[str, Any]]) -> pandas.DataFrame:
    """Return records as a table. Raises RequestError where pandas is absent."""
    try:
        import pandas  # an extra, and slow to import
    except ModuleNotFoundError:
        raise RequestError("tables need pandas: pip install 'marith[evals]'") from None
    return pandas.DataFrame(list(records))
