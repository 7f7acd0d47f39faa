"""The page of architectures has every architecture, as the tables say, and no stray difference."""

from __future__ import annotations

from support.architectures.models import CLOSE, expected, names
from support.architectures.page import PAGE, Row
from support.architectures.tables import ABOVE, REMARKS

TEXT = PAGE.read_text(encoding="utf-8")


def rows() -> list[Row]:
    """The lines of the large table."""
    _, _, table = TEXT.partition("| architecture | runner |")
    lines = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return [Row(cells[0], cells[1].strip(), number(cells)) for cells in lines]


def number(cells: list[str]) -> float | None:
    return float(cells[2]) if len(cells) > 2 and cells[2].strip("| ") else None


def test_the_page_has_every_architecture_as_the_tables_say() -> None:
    assert {row.name: row.kind for row in rows()} == {name: expected(name) for name in names()}
    assert len(rows()) == len(names()) > 150


def test_differences_are_small_but_where_a_cause_is_known() -> None:
    for row in rows():
        measured = row.kind in {"cached", "states", "uncached"}
        assert (row.worst is not None) == measured, row.name
        if row.worst is not None:
            assert (row.worst >= CLOSE) == (row.name in ABOVE), row.name
    assert set(REMARKS) >= ABOVE
