"""Reads rows from files of several kinds; errors name the line or row."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from marith.errors import RequestError, unreadable

NO_PARQUET = "a .parquet file needs pyarrow: pip install 'marith[evals]'"

Record: TypeAlias = "Mapping[str, Any]"
LocatedRecord: TypeAlias = "tuple[str, Record]"  # where it is in the file, as "line 7", and the row


def records(path: Path) -> Iterator[LocatedRecord]:
    """Every row of a file, in order; a line of a plain text is a row with a `text`.

    Raises RequestError for a file that cannot be read, and for what is no row, with its line.
    """
    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise RequestError(f"data is a {kinds()} file, not {str(path)!r}")
    try:
        yield from FORMATS[kind](path)
    except (OSError, UnicodeError) as error:
        raise unreadable(path, error) from None


def fault(path: Path, where: str, problem: str) -> RequestError:
    """The error for one row of a file."""
    return RequestError(f"{str(path)!r}, {where}: {problem}")


def cell_text(value: Any) -> str:
    """A cell as text: `true` and `null` as JSON writes them, and `1` where a table holds 1.0."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # as tables keep whole numbers where some are missing
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def kinds() -> str:
    """The suffixes of the files that can be read, as text."""
    *rest, last = FORMATS
    return f"{', '.join(rest)} or {last}"


def _separated(path: Path, delimiter: str) -> Iterator[LocatedRecord]:
    """Rows below a line of column names; a quoted text may contain line ends."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, delimiter=delimiter, strict=True)
        try:
            columns = next(lines, [])
            if len(set(columns)) < len(columns):
                raise fault(path, "line 1", f"a column is named twice in {columns!r}")
            start = lines.line_num + 1
            for values in lines:
                where, start = f"line {start}", lines.line_num + 1
                if not values:
                    continue
                if len(values) != len(columns):
                    counts = f"{len(values)} values for {len(columns)} columns"
                    raise fault(path, where, f"there are {counts}")
                yield where, dict(zip(columns, values, strict=True))
        except csv.Error as error:
            raise fault(path, f"line {lines.line_num}", str(error)) from None


def _json_lines(path: Path) -> Iterator[LocatedRecord]:
    """One JSON object on each line."""
    for where, line in _lines(path):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise fault(path, where, f"this is no JSON: {error}") from None
        if not isinstance(record, dict):
            raise fault(path, where, f"a row is a JSON object, not {str(record)[:60]!r}")
        yield where, record


def _text_lines(path: Path) -> Iterator[LocatedRecord]:
    return ((where, {"text": line}) for where, line in _lines(path))


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines that are not empty, with their numbers."""
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield f"line {number}", line.rstrip("\n")


def _parquet(path: Path) -> Iterator[LocatedRecord]:
    try:
        from pyarrow import lib, parquet  # an extra that only this format needs
    except ModuleNotFoundError:
        raise RequestError(NO_PARQUET) from None
    parquet_file: Any = parquet.ParquetFile
    try:
        with parquet_file(path) as table:
            batches = (record for batch in table.iter_batches() for record in batch.to_pylist())
            for number, record in enumerate(batches, start=1):
                yield f"row {number}", record
    except lib.ArrowException as error:
        raise unreadable(path, error) from None


FORMATS: Mapping[str, Callable[[Path], Iterator[LocatedRecord]]] = {
    ".csv": partial(_separated, delimiter=","),
    ".tsv": partial(_separated, delimiter="\t"),
    ".jsonl": _json_lines,
    ".parquet": _parquet,
    ".txt": _text_lines,
}
