"""What was measured, as plain data and as a table: our figures, and the paper's beside them."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from marith.evals.experiment.figures import Figure, figure
from marith.evals.experiment.results import Results
from marith.evals.experiment.texts import Line
from marith.evals.paper import Table

NAMED = ("", "formula")  # columns that are no figures
DIGITS = 4  # that count; a judge's last digits hang on what it is run on


@dataclass(frozen=True, slots=True)
class Row:
    """A formula's figures by measure, and the paper's by model where it has the formula."""

    line: Line
    figures: Mapping[str, Figure]
    paper: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """A whole evaluation. `measures` say which way is better; `notes` are to be read with it."""

    evaluation: str
    title: str
    measures: Mapping[str, str]
    rows: tuple[Row, ...]
    settings: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    paper: Table | None = None

    def to_json(self) -> str:
        """Everything there is; what is no number is null."""
        data = asdict(self)
        data["paper"] = self.paper and self.paper.title
        return json.dumps(_plain(data), indent=2, ensure_ascii=False)

    def to_csv(self) -> str:
        """A line for each formula, a column for each number."""
        rows = [self._numbers(row) for row in self.rows]
        told = io.StringIO()
        names = dict.fromkeys(name for row in rows for name in row)
        writer = csv.DictWriter(told, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return told.getvalue()

    def to_markdown(self) -> str:
        """The table, with its title and its notes."""
        header, *rows = self.cells()
        right = ["---" if name in NAMED else "---:" for name in header]
        lines = [_markdown(cells) for cells in (header, right, *rows)]
        below = [f"{self.caption}\n"] if self.models else []
        notes = [f"- {note}" for note in self.notes]
        return "\n".join([f"{self.title}\n", *lines, "", *below, *notes]).rstrip() + "\n"

    def cells(self) -> list[list[str]]:
        """The table's head and its rows as texts: a mean with its interval, and its median.

        A column that nothing fills is left out.
        """
        head = [*NAMED]
        for measure, better in self.measures.items():
            arrow = {"lower": " ↓", "higher": " ↑"}.get(better, "")
            head += [f"{measure}{arrow}", "median"]
        head += [f"paper: {model}" for model in self.models]
        found = [head]
        for row in self.rows:
            formula = row.line.formula if row.line.formula != row.line.name else ""
            cells = [row.line.name, formula]
            for measure in self.measures:
                one = row.figures[measure]
                cells += [_mean(one), digits(one.median)]
            printed = (row.paper.get(model) for model in self.models)
            cells += [self.paper.printed(one) if self.paper and one else "" for one in printed]
            found.append(cells)
        filled = [i for i in range(len(head)) if any(cells[i] for cells in found[1:])]
        return [[cells[i] for i in filled] for cells in found]

    @property
    def models(self) -> tuple[str, ...]:
        """The paper's models, if it has one of the formulas."""
        known = self.paper is not None and any(row.paper for row in self.rows)
        return self.paper.models if self.paper and known else ()

    @property
    def caption(self) -> str:
        """What stands in the paper's columns."""
        assert self.paper is not None
        return f"paper: {' / '.join(self.paper.measures)}; {self.paper.title}"

    def _numbers(self, row: Row) -> dict[str, Any]:
        """All that is known of a row, by the name of its column."""
        told: dict[str, Any] = {"name": row.line.name, "formula": row.line.formula}
        for measure in self.measures:
            for kind, value in asdict(row.figures[measure]).items():
                told[f"{measure} {kind}"] = _written(value) if isinstance(value, float) else value
        for model, numbers in row.paper.items():
            assert self.paper is not None
            for measure, number in zip(self.paper.measures, numbers, strict=True):
                told[f"paper: {model} {measure}"] = number
        return told


def summarise(
    results: Results, title: str, paper: Table | None = None, notes: Sequence[str] = ()
) -> Report:
    """The figures of every line, over prompts; what has no number is told in a note."""
    experiment = results.experiment
    measures = {measure.name: measure.better for measure in experiment.measures}
    rows = tuple(
        Row(
            line,
            {name: figure(results.by_prompt(line.name, name)) for name in measures},
            paper.beside(line.formula) if paper else {},
        )
        for line in experiment.lines
    )
    told = [*notes, *(note for name in measures if (note := _missing(name, rows)))]
    settings = experiment.settings()
    return Report(experiment.evaluation, title, measures, rows, settings, tuple(told), paper)


def digits(value: float) -> str:
    """A number with the digits that count, at most four behind the point; "" for what is none."""
    if math.isnan(value):
        return ""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    behind = DIGITS - 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{max(0, min(behind, DIGITS))}f}"


def _written(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.{DIGITS}g}"


def counted(count: int, noun: str) -> str:
    """1 prompt, 2 prompts."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _missing(measure: str, rows: Sequence[Row]) -> str:
    """How many prompts have no number, formula by formula."""
    found = {row.line.name: row.figures[measure].missing for row in rows}
    told = ", ".join(f"{count} of {name}" for name, count in found.items() if count)
    return f"left out of {measure}, for they have none: {told}" if told else ""


def _mean(one: Figure) -> str:
    if not one.count:
        return ""
    return f"{digits(one.mean)} [{digits(one.low)}, {digits(one.high)}]"


def _markdown(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _plain(data: Any) -> Any:
    """The same without what JSON has no word for."""
    if isinstance(data, dict):
        return {key: _plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plain(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return None if math.isnan(data) else str(data)
    return data
