"""Prompts out of data: files of several kinds, a column of theirs, and so many of their rows."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from marith import tables
from marith.errors import RequestError
from marith.evals import pocket_texts
from marith.evals.experiment import hub
from marith.tables import Record, cell_text

DEFAULT_COLUMNS = ("prompt", "text", "message", "review", "instruction")
_MOST_NAMED = 8  # values of a column in an error
DEFAULT_COUNT = 200  # texts that are taken where nobody says how many


@dataclass(frozen=True, slots=True)
class Rows:
    """The texts of one column, each with its row; `empty` of the rows had none."""

    source: str
    column: str
    texts: tuple[tuple[int, str], ...]
    empty: int = 0


def read(data: str, column: str | None = None, where: Mapping[str, str] | None = None) -> Rows:
    """The texts in a file that `tables` reads, all of a folder, or one of the hub.

    Without `column` it is one of `DEFAULT_COLUMNS`; `a.b` is b within a. Rows are those in which
    the columns of `where` have its values, as `cell_text` writes them. Raises RequestError for what
    cannot be read, for a column that is not there, with those that are, and where no row is left.
    """
    files = _local(data) or [hub.download(data)]
    records = ((file, *located) for file in files for located in tables.records(file))
    first = next(records, None)
    if first is None:
        raise RequestError(f"{data!r} has no rows")
    name = column or _default_column(first[-1], data)
    selection = _Selection(where or {})
    texts: list[tuple[int, str]] = []
    empty = 0
    for row, (file, line, record) in enumerate(chain([first], records)):
        place = f"{line} of {str(file)!r}"
        if not selection.takes(record, place):
            continue
        text = _text(record, name, place)
        if text.strip():
            texts.append((row, text))
        else:
            empty += 1
    if not (texts or empty):
        raise RequestError(f"no row of {data!r} {selection.missed()}")
    return Rows(data, name, tuple(texts), empty)


class _Selection:
    """The rows that have the values of `where`. Keeps state: the values that were there."""

    def __init__(self, where: Mapping[str, str]) -> None:
        self._where = where
        self._values: dict[str, dict[str, None]] = {key: {} for key in where}
        self._met: set[str] = set()

    def takes(self, record: Record, place: str) -> bool:
        """Whether a row has all values."""
        fits = True
        for key, wanted in self._where.items():
            cell = _value(record, key, place)
            if len(self._values[key]) <= _MOST_NAMED:
                self._values[key][cell_text(cell)] = None
            if wanted in (cell_text(cell), str(cell)):  # True, too, as Python writes it
                self._met.add(key)
            else:
                fits = False
        return fits

    def missed(self) -> str:
        """What no row has: one of the values, or all of them together."""
        for key, wanted in self._where.items():
            values = list(self._values[key])
            if key not in self._met:
                more = ", …" if len(values) > _MOST_NAMED else ""
                named = ", ".join(map(repr, values[:_MOST_NAMED]))
                return f"has {key}={wanted!r}; it has {named}{more}"
        return "has " + " and ".join(f"{key}={wanted!r}" for key, wanted in self._where.items())


def choose(rows: Rows, n: int, seed: int) -> list[tuple[int, str]]:
    """So many rows, drawn by the seed; a larger `n` keeps the rows of a smaller one.

    Raises RequestError where there are too few.
    """
    count = len(rows.texts)
    if not count:
        raise RequestError(f"every text of {rows.source!r} is empty")
    if n > count:
        raise RequestError(f"{rows.source!r} has {count} texts, not {n!r}")
    order = list(rows.texts)
    random.Random(f"rows {seed}").shuffle(order)  # noqa: S311 (rows, not secrets)
    return order[:n]


def of_pocket(kind: str, n: int, seed: int) -> list[tuple[int, str]]:
    """So many of pocket's own texts of a kind; seed 0 takes them in their order.

    Raises RequestError where there are too few.
    """
    rows = replace(read(str(pocket_texts.file(kind))), source=f"pocket's own {kind}")
    return choose(rows, n, seed) if seed or n > len(rows.texts) else list(rows.texts[:n])


def _local(data: str) -> list[Path]:
    """The files that a path names; none where it may be a data set of the hub."""
    path = Path(data).expanduser()
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix.lower() in tables.FORMATS)
        if not files:
            raise RequestError(f"the folder {data!r} has no {tables.kinds()} file")
        return files
    if not path.is_file() and not hub.names_dataset(data):
        raise RequestError(f"there is no data {data!r}")
    return [path] if path.is_file() else []


def _default_column(record: Record, data: str) -> str:
    column = next((name for name in DEFAULT_COLUMNS if name in record), None)
    if column is None:
        raise RequestError(f"which column of {data!r} has the prompts? It has {_named(record)}")
    return f"{column}.text" if isinstance(record[column], dict) else column


def _text(record: Record, column: str, place: str) -> str:
    """The text in a column, or "" where it is empty."""
    value = _value(record, column, place)
    if value is not None and not isinstance(value, str):
        raise RequestError(f"{place} has no text in {column!r}, but {str(value)[:40]!r}")
    return value or ""


def _value(record: Record, column: str, place: str) -> Any:
    value: Any = record
    for part in [column] if column in record else column.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise RequestError(f"{place} has no column {column!r}; it has {_named(record)}")
        value = value[part]
    return value


def _named(record: Record) -> str:
    return ", ".join(map(str, record))
