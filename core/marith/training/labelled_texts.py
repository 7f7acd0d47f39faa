"""Read texts and their labels from a file. Invalid data is refused with its row."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marith import tables
from marith.errors import RequestError
from marith.tables import Record, cell_text, fault


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text, the name of its class, and its place in the file, such as `line 7`."""

    text: str
    label: str
    where: str


def labelled(
    path: Path, text_column: str = "text", label_column: str = "label"
) -> list[LabelledText]:
    """Return every row of a table, in order.

    A label is a text, a whole number, True or False; a label that is not a text is written as in
    JSON. Raises RequestError, with the file and the row, for any other value.
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
        raise fault(
            path, where, f"the column {column!r} must have a text in each row, not {text!r}"
        )
    if not text.strip():
        raise fault(path, where, "the text is empty")
    try:
        text.encode()
    except UnicodeEncodeError:
        # JSON can contain half of a surrogate pair, which cannot be encoded.
        raise fault(path, where, f"this text is not Unicode: {text[:60]!r}") from None


def _name(path: Path, where: str, label: Any) -> str:
    """Return the name of a class: `toxic`, `1`, `true`."""
    if not (isinstance(label, (str, int)) or (isinstance(label, float) and label.is_integer())):
        raise fault(path, where, f"a label is a text or a whole number, not {label!r}")
    name = cell_text(label).strip()
    if not name:
        raise fault(path, where, "the label is empty")
    return name


@dataclass(frozen=True, slots=True)
class Split:
    """The texts to learn from, and the held-out texts. A repeated text is in one part only."""

    learned: tuple[LabelledText, ...]
    held_out: tuple[LabelledText, ...]


def random_source(*parts: object) -> random.Random:
    """Return a generator whose numbers depend only on `parts`, and are equal in every process."""
    return random.Random(" ".join(map(str, parts)))  # noqa: S311 (texts, not secrets)


def class_names(rows: Sequence[LabelledText]) -> tuple[str, ...]:
    """Return the names of all labels. Numbers are sorted by value, other names alphabetically.

    Raises RequestError for a single class, and for names that differ only in case.
    """
    names = set(dict.fromkeys(row.label for row in rows))
    if len(names) < 2:
        raise RequestError(
            f"all rows have the class {names.pop()!r}; a classifier needs two classes"
        )
    names_by_case: dict[str, str] = {}
    for name in sorted(names):
        other = names_by_case.setdefault(name.lower(), name)
        if other != name:
            raise RequestError(f"the labels {other!r} and {name!r} differ only in case")
    try:
        return tuple(sorted(names, key=int))
    except ValueError:
        return tuple(sorted(names))


def split(rows: Sequence[LabelledText], share: float, seed: int) -> Split:
    """Hold out about `share` of the texts of every class, and at least one text.

    Raises RequestError for a class with too few texts.
    """
    texts: dict[str, list[str]] = {row.label: [] for row in rows}
    for text, label in {row.text: row.label for row in reversed(rows)}.items():
        texts[label].append(text)
    held_out_texts: set[str] = set()
    for label, members in sorted(texts.items()):
        if len(members) < 2:
            raise RequestError(
                f"the class {label!r} has {len(members)} distinct texts, and needs two: one to "
                "learn from, one held out"
            )
        random_source(seed, "held out", label).shuffle(members)
        held_out_texts.update(members[: min(len(members) - 1, max(1, round(share * len(members))))])
    return Split(
        tuple(row for row in rows if row.text not in held_out_texts),
        tuple(row for row in rows if row.text in held_out_texts),
    )


def epoch(classes: Sequence[int], balance: bool, seed: int, number: int) -> list[int]:
    """Return the shuffled indices of one epoch's examples. `classes` has the class of each example.

    With `balance`, every class has as many examples as the rarest class. A larger class has a new
    random sample of its examples in every epoch.
    """
    draw = random_source(seed, "epoch", number)
    places: dict[int, list[int]] = {}
    for place, example_class in enumerate(classes):
        places.setdefault(example_class, []).append(place)
    fewest = min(map(len, places.values()))
    chosen = [place for _, members in sorted(places.items())
              for place in (draw.sample(members, fewest) if balance else members)]  # fmt: skip
    draw.shuffle(chosen)
    return chosen


def epoch_size(classes: Sequence[int], balance: bool) -> int:
    """Return the number of examples of an epoch."""
    counts = Counter(classes).values()
    return min(counts) * len(counts) if balance else sum(counts)
