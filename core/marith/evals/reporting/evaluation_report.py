"""A result for people and programs: tables on the terminal, and CSV, Markdown, JSON and plots."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.console import Console

from marith.errors import RequestError
from marith.evals.experiment.store import write
from marith.evals.reporting.numbers import SIGNIFICANT
from marith.evals.reporting.table import Table
from marith.showing import NO_PLOT, can_draw, check_file, check_plot, say, terminal

if TYPE_CHECKING:
    import pandas

CSV, MARKDOWN, JSON, PLOT = "table.csv", "table.md", "report.json", "plot.png"
PRINTED = Path("-")
NO_PANDAS = "tables in files need pandas: pip install 'marith[evals]'"

Record: TypeAlias = "Mapping[str, Any]"


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """All that is printed and written of a result, whatever was evaluated.

    `records` are the lines of the CSV, and `data` is the JSON. `details` are tables of the
    Markdown alone, `published` ones follow the notes. `best` is what to take from it. `plots` are
    drawn by the names of their files. The CSV has so many `significant` digits, or all.
    """

    title: str
    tables: Sequence[Table]
    data: Record
    records: Sequence[Record] = ()
    notes: Sequence[str] = ()
    details: Sequence[Table] = ()
    published: Sequence[Table] = ()
    best: str = ""
    significant: int | None = SIGNIFICANT
    plots: Mapping[str, Callable[[Path], None]] = field(default_factory=dict)

    def to_json(self) -> str:
        """Everything there is; what is no number is null."""
        return json.dumps(_plain(self.data), indent=2, ensure_ascii=False)

    def to_csv(self) -> str:
        """Every number, a line for each record."""
        return to_csv(self.records, self.significant)

    def to_dataframe(self) -> pandas.DataFrame:
        """Every number with all its digits, a row for each record. Raises RequestError."""
        return dataframe(self.records)

    def to_markdown(self) -> str:
        """The tables, with their title and their notes."""
        best = f"```\n{self.best}\n```" if self.best else ""
        tables, published = (
            [table.to_markdown() for table in group]
            for group in ((*self.tables, *self.details), self.published)
        )
        notes = "\n".join(f"- {note}" for note in self.notes)
        parts = (self.title, best, *tables, notes, *published)
        return "\n\n".join(filter(None, parts)) + "\n"

    def write(self, folder: Path) -> None:
        """All there is, as files in a folder; plots if there is matplotlib."""
        write(folder / CSV, self.to_csv())
        write(folder / MARKDOWN, self.to_markdown())
        write(folder / JSON, self.to_json() + "\n")
        for name, draw_to in self.plots.items() if can_draw() else ():
            draw_to(folder / name)

    def show(self, out: Path | None = None) -> None:
        """Write all there is to `out`; print the title, the tables and the notes."""
        if out is not None:
            self.write(out)
        undrawn = [NO_PLOT] if out is not None and not can_draw() else []
        self._print(terminal(), [*self.notes, *undrawn])

    def show_or_print_json(self, as_json: Path | None, width: int) -> None:
        """Print the title, the tables and the notes, and write the JSON; `-` prints that alone.

        A table is as wide as the terminal, and `width` letters where there is none.
        """
        console = terminal(width)
        if as_json == PRINTED:
            console.out(self.to_json(), highlight=False)
            return
        if as_json is not None:
            as_json.write_text(self.to_json() + "\n", encoding="utf-8")
        self._print(console, self.notes)

    def _print(self, console: Console, notes: Sequence[str]) -> None:
        say(console, [self.title])
        _print_tables(console, self.tables)
        say(console, notes)
        _print_tables(console, self.published)
        if self.best:
            say(console, [f"best: {self.best}"])


def to_csv(records: Iterable[Record], significant: int | None = None) -> str:
    """Records as CSV, numbers with so many digits or all; what is no number is empty.

    Raises RequestError where pandas is absent.
    """
    rows = [
        {name: _rounded(value, significant) for name, value in record.items()} for record in records
    ]
    # As objects: whole numbers stay whole beside those that are missing.
    return str(dataframe(rows, dtype=object).to_csv(index=False, lineterminator="\n"))


def dataframe(records: Iterable[Record], dtype: Any = None) -> pandas.DataFrame:
    """Records as a table of pandas. Raises RequestError where pandas is absent."""
    try:
        import pandas  # an extra, and slow to import
    except ModuleNotFoundError:
        raise RequestError(NO_PANDAS) from None
    return pandas.DataFrame(list(records), dtype=dtype)


def split_sections(texts: Sequence[str], every: tuple[str, ...]) -> tuple[str, ...]:
    """`["terms,floor", "concurrency"]` → the names of three sections; all names for no text."""
    return tuple(name.strip() for text in texts for name in text.split(",")) or every


def check_sections(sections: Sequence[str], every: Sequence[str]) -> None:
    """Raise RequestError for a section that does not exist."""
    for section in sections:
        if section not in every:
            raise RequestError(f"a section is one of {', '.join(every)}, not {section!r}")


def check_outputs(
    as_json: Path | None, plot: Path | None, sections: Sequence[str], plotted: Sequence[str]
) -> None:
    """Raise RequestError for a file that could not be written at the end."""
    check_file(as_json)
    if plot is not None and not set(sections) & set(plotted):
        raise RequestError(f"a plot shows {', '.join(plotted)}, not {', '.join(sections)!r} alone")
    check_plot(plot)


def _rounded(value: Any, significant: int | None) -> Any:
    whole = significant is None or not isinstance(value, float) or math.isnan(value)
    return value if whole else f"{value:.{significant}g}"


def _print_tables(console: Console, tables: Sequence[Table]) -> None:
    for table in tables:
        say(console, filter(None, [table.title]))
        console.print(table.to_rich(), highlight=False)
        say(console, filter(None, [table.caption]))


def _plain(data: Any) -> Any:
    """The same without what JSON cannot express."""
    if isinstance(data, Mapping):
        return {key: _plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plain(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return None if math.isnan(data) else str(data)
    return data
