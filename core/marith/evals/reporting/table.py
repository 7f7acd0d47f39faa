"""A table of texts, for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import rich.table
from rich.console import JustifyMethod
from rich.text import Text

Cells: TypeAlias = "Sequence[str]"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts below their `head`, with a title above and a caption below.

    The columns numbered in `left` hold words, the others numbers. `groups` are headings, each
    above the row of its number; only a terminal shows them.
    """

    head: Cells
    rows: Sequence[Cells]
    left: Collection[int] = (0,)
    title: str = ""
    caption: str = ""
    groups: Mapping[int, str] = field(default_factory=dict)

    def filled(self) -> Table:
        """The table without the columns that nothing fills."""
        kept = [i for i in range(len(self.head)) if any(row[i] for row in self.rows)]
        head, *rows = ([cells[i] for i in kept] for cells in (self.head, *self.rows))
        left = {place for place, i in enumerate(kept) if i in self.left}
        return replace(self, head=head, rows=rows, left=left)

    def to_markdown(self) -> str:
        """The rows as Markdown has them; title and caption stand around them."""
        rule = ["---" if i in self.left else "---:" for i in range(len(self.head))]
        rows = (self.head, rule, *self.rows)
        cells = "\n".join(f"| {' | '.join(map(in_cell, row))} |" for row in rows)
        return "\n\n".join(filter(None, (self.title, cells, self.caption)))

    def to_rich(self) -> rich.table.Table:
        """The rows for a terminal. Brackets are no markup, and nothing is cut off."""
        table = rich.table.Table()
        for i, name in enumerate(self.head):
            side: JustifyMethod = "left" if i in self.left else "right"
            table.add_column(name, justify=side, overflow="fold")
        for i, row in enumerate(self.rows):
            if i in self.groups:
                table.add_section()
                table.add_row(Text(self.groups[i]), style="bold")
            table.add_row(*map(Text, row))
        return table


def in_cell(text: str) -> str:
    """A text that stays in its cell of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", "<br>")
