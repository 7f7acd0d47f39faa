"""Read rows from files of several formats. Errors name the line or row."""

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
# The place of a row, such as "line 7", and the row.
LocatedRecord: TypeAlias = "tuple[str, Record]"


def records(path: Path) -> Iterator[LocatedRecord]:
    """Yield every row of a file, in order. A line of a .txt file is a row with the column `text`.

    Raises RequestError if the file cannot be read, or for an invalid row, with its line.
    """
    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise RequestError(f"data must be a {kinds()} file, not {str(path)!r}")
    try:
        yield from FORMATS[kind](path)
    except (OSError, UnicodeError) as error:
        raise unreadable(path, error) from None


def fault(path: Path, where: str, problem: str) -> RequestError:
    """Return the error for one row of a file."""
    return RequestError(f"{str(path)!r}, {where}: {problem}")


def cell_text(value: Any) -> str:
    """Return a cell as text: `true` and `null` as in JSON, and 1.0 as `1`."""
    # A column with missing values stores whole numbers as floats.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def kinds() -> str:
    """Return the suffixes of the supported files, as text."""
    *rest, last = FORMATS
    return f"{', '.join(rest)} or {last}"


def _separated(path: Path, delimiter: str) -> Iterator[LocatedRecord]:
    """Yield rows below a line of column names. A quoted text may contain line ends."""
    # Spreadsheets begin a file with a byte order mark, which is not a part of the first name.
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
    """Yield the JSON object of each line."""
    for where, line in _lines(path):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise fault(path, where, f"invalid JSON: {error}") from None
        if not isinstance(record, dict):
            raise fault(path, where, f"a row must be a JSON object, not {str(record)[:60]!r}")
        yield where, record


def _text_lines(path: Path) -> Iterator[LocatedRecord]:
    return ((where, {"text": line}) for where, line in _lines(path))


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the lines that are not empty, with their numbers."""
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield f"line {number}", line.rstrip("\n")


def _parquet(path: Path) -> Iterator[LocatedRecord]:
    try:
        # Only this format needs this extra.
        from pyarrow import lib, parquet
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
