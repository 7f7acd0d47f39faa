"""Prints answers to standard output and progress to standard error."""

from __future__ import annotations

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

WIDTH = 100  # characters in a line
LABEL = 26


class Printer:
    """Prints the screen line by line. Colour and progress are for terminals only."""

    def __init__(self) -> None:
        console = Console()
        width = min(WIDTH, console.width) if console.is_terminal else WIDTH
        self.console = Console(width=width, highlight=False)
        self._errors = Console(stderr=True)

    def progress(self, doing: str) -> Status:
        """Return a line of progress that disappears when it is closed. Print nothing before."""
        return self._errors.status(doing)

    def line(self, text: str = "", style: str = "") -> None:
        """Print one line, which wraps on a narrow terminal."""
        self.console.print(Text(text, style=style))

    def title(self, text: str) -> None:
        """Print a blank line and the heading of a part."""
        self.line()
        self.line(text, "bold")

    def row(self, label: str, text: str) -> None:
        """Print a label, followed by a text of any length."""
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(width=LABEL, overflow="fold")
        grid.add_column()
        grid.add_row(Text(f"  {label}", style="cyan"), Text(text))
        self.console.print(grid)
