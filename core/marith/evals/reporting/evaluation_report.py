"""A result for people and programs: tables on the terminal, and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from marith.errors import RequestError
from marith.evals.reporting.table import Table
from marith.showing import check_file, check_plot, say, terminal

PRINTED = Path("-")


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """What is printed and written of a result: `tables`, then notes, then published tables.

    `data` is the JSON.
    """

    title: str
    tables: Sequence[Table]
    data: Mapping[str, Any]
    notes: Sequence[str] = ()
    published: Sequence[Table] = ()

    def to_json(self) -> str:
        """Return everything there is; what is no number is null."""
        return json.dumps(_plain(self.data), indent=2, ensure_ascii=False)

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
        say(console, [self.title])
        _print_tables(console, self.tables)
        say(console, self.notes)
        _print_tables(console, self.published)


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
