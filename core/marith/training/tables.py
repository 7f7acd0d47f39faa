"""Texts and their labels from a file: what no classifier can learn from is refused with its row."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from marith.errors import RequestError

NO_PARQUET = "a .parquet file needs pyarrow: pip install 'marith[evals]'"

Record: TypeAlias = "tuple[str, Mapping[str, Any]]"


@dataclass(frozen=True, slots=True)
class Row:
    """A text, the name of its class, and where it stands: `line 7` of a text file."""

    text: str
    label: str
    where: str


def read(path: Path, text_column: str = "text", label_column: str = "label") -> list[Row]:
    """Every row of a table, in order.

    Labels are texts, whole numbers or truth values; their names are as JSON writes them. Raises
    RequestError, with the file and the row, for what is neither.
    """
    rows = []
    try:
        for where, record in FORMATS[path.suffix.lower()](path):
            text, label = (
                _cell(path, where, record, column) for column in (text_column, label_column)
            )
            _check_text(path, where, text)
            rows.append(Row(text, _name(path, where, label), where))
    except (OSError, UnicodeError) as error:
        raise RequestError(f"cannot read {str(path)!r}: {error}") from None
    if not rows:
        raise RequestError(f"{str(path)!r} has no rows")
    return rows


def _cell(path: Path, where: str, record: Mapping[str, Any], column: str) -> Any:
    if column not in record:
        columns = ", ".join(map(repr, record)) or "none"
        raise fault(path, where, f"there is no column {column!r}; there are {columns}")
    return record[column]


def _check_text(path: Path, where: str, text: Any) -> None:
    if not isinstance(text, str):
        raise fault(path, where, f"a text is a text, not {text!r}")
    if not text.strip():
        raise fault(path, where, "the text is empty")
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can spell
        raise fault(path, where, f"this text is not Unicode: {text[:60]!r}") from None


def _name(path: Path, where: str, label: Any) -> str:
    """The name of a class: `toxic`, `1`, `true`."""
    if isinstance(label, float) and label.is_integer():
        label = int(label)  # as tables keep whole numbers where some are missing
    if isinstance(label, bool):
        return json.dumps(label)
    if not isinstance(label, (str, int)):
        raise fault(path, where, f"a label is a text or a whole number, not {label!r}")
    name = str(label).strip()
    if not name:
        raise fault(path, where, "the label is empty")
    return name


def fault(path: Path, where: str, problem: str) -> RequestError:
    """What is wrong with one row, in a sentence."""
    return RequestError(f"{str(path)!r}, {where}: {problem}")


def _separated(path: Path, delimiter: str) -> Iterator[Record]:
    """Rows below a line of column names; a quoted text may have line ends in it."""
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


def _json_lines(path: Path) -> Iterator[Record]:
    """One object a line; empty lines are none."""
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            where = f"line {number}"
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise fault(path, where, f"this is no JSON: {error}") from None
            if not isinstance(record, dict):
                raise fault(path, where, f"a row is a JSON object, not {record!r}")
            yield where, record


def _parquet(path: Path) -> Iterator[Record]:
    if find_spec("pyarrow") is None:
        raise RequestError(NO_PARQUET)
    from pyarrow import lib, parquet  # an extra that only this format needs

    try:
        batches = parquet.read_table(path).to_batches()  # type: ignore[no-untyped-call]
    except lib.ArrowException as error:
        raise RequestError(f"cannot read {str(path)!r}: {error}") from None
    records = (record for batch in batches for record in batch.to_pylist())
    for number, record in enumerate(records, start=1):
        yield f"row {number}", record


FORMATS: dict[str, Callable[[Path], Iterator[Record]]] = {
    ".csv": partial(_separated, delimiter=","),
    ".tsv": partial(_separated, delimiter="\t"),
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}
