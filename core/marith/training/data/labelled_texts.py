"""Texts and their labels from a file: what no classifier can learn from is refused with its row."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marith import tables
from marith.errors import RequestError
from marith.tables import Record, cell_text, fault

KINDS = tuple(kind for kind in tables.FORMATS if kind != ".txt")  # which has no labels


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text, the name of its class, and where it stands: `line 7` of a text file."""

    text: str
    label: str
    where: str


def labelled(
    path: Path, text_column: str = "text", label_column: str = "label"
) -> list[LabelledText]:
    """Every row of a table, in order.

    Labels are texts, whole numbers or truth values; their names are as JSON writes them. Raises
    RequestError, with the file and the row, for what is neither.
    """
    rows = []
    for where, record in tables.records(path):
        text, label = (_cell(path, where, record, column) for column in (text_column, label_column))
        _check_text(path, where, text_column, text)
        rows.append(LabelledText(text, _name(path, where, label), where))
    if not rows:
        raise RequestError(f"{str(path)!r} has no rows")
    return rows


def _cell(path: Path, where: str, record: Record, column: str) -> Any:
    if column not in record:
        columns = ", ".join(map(repr, record)) or "none"
        raise fault(path, where, f"there is no column {column!r}; there are {columns}")
    return record[column]


def _check_text(path: Path, where: str, column: str, text: Any) -> None:
    if not isinstance(text, str):
        raise fault(path, where, f"the column {column!r} has a text in each row, not {text!r}")
    if not text.strip():
        raise fault(path, where, "the text is empty")
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can spell
        raise fault(path, where, f"this text is not Unicode: {text[:60]!r}") from None


def _name(path: Path, where: str, label: Any) -> str:
    """The name of a class: `toxic`, `1`, `true`."""
    if not (isinstance(label, (str, int)) or (isinstance(label, float) and label.is_integer())):
        raise fault(path, where, f"a label is a text or a whole number, not {label!r}")
    name = cell_text(label).strip()
    if not name:
        raise fault(path, where, "the label is empty")
    return name
