"""Print the size of the package, room by room: statements, lines and files.

Run as `python -m tools.size`. Statements are those of the syntax tree, without imports and
docstrings. Lines are all lines of all files, also of the page's JavaScript. `--against COMMIT` adds
what each room has gained since a commit.
"""

from __future__ import annotations

import ast
import io
import subprocess
import tarfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

ROOT = Path(__file__).parents[1]
ENGINE = (
    "formula", "recipes", "request", "options", "decoding", "scoring", "speculation", "answers",
    "engine",
)  # fmt: skip
SOURCES = (".py", ".js")
NOT_STATEMENTS = (ast.Import, ast.ImportFrom)


@dataclass(frozen=True)
class Size:
    """The size of a file, of a room, or of several rooms."""

    files: int = 0
    lines: int = 0
    statements: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(
            self.files + other.files,
            self.lines + other.lines,
            self.statements + other.statements,
        )


def statements(source: str) -> int:
    """Count the statements of a Python file without imports and docstrings."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    return sum(not isinstance(node, NOT_STATEMENTS) and not _is_text(node) for node in nodes)


def _is_text(node: ast.stmt) -> bool:
    """Return True if a statement is only a string, as a docstring is."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def room(path: Path) -> tuple[str, str] | None:
    """Return the part and the room of a file, or None for a file that is not counted."""
    parts = path.parts
    if path.suffix not in SOURCES:
        return None
    if parts[:2] == ("core", "marith"):
        name = parts[2] if len(parts) > 3 else "(files)"
        return ("engine" if name in ENGINE else "applications"), name
    if parts[0] in ("langchain_marith", "llamaindex_marith"):
        return "adapters", parts[0]
    if parts[0] in ("tests", "tools", "benchmarks"):
        return parts[0], parts[1] if len(parts) > 2 else "(files)"
    return None


def sizes(commit: str) -> dict[tuple[str, str], Size]:
    """Return the size of each room in a commit."""
    archive = subprocess.check_output(["git", "archive", commit], cwd=ROOT)  # noqa: S603, S607
    found: dict[tuple[str, str], Size] = defaultdict(Size)
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            where = room(Path(member.name))
            file = files.extractfile(member) if where else None
            if where and file:
                source = file.read().decode()
                count = statements(source) if member.name.endswith(".py") else 0
                found[where] += Size(1, source.count("\n"), count)
    return found


def main(
    commit: Annotated[str, typer.Argument(help="The commit to count.")] = "HEAD",
    against: Annotated[str | None, typer.Option(help="An earlier commit.")] = None,
) -> None:
    """Print a table of parts and rooms."""
    now = sizes(commit)
    before = sizes(against) if against else {}
    print("| part | room | files | lines | statements |" + (" lines gained |" if before else ""))
    print("| --- | --- | ---: | ---: | ---: |" + (" ---: |" if before else ""))
    places = sorted({*now, *before})
    for part in dict.fromkeys(part for part, _ in places):
        rooms = [name for its, name in places if its == part]
        _print(part, "**all**", [(part, name) for name in rooms], now, before)
        for name in rooms:
            _print("", name, [(part, name)], now, before)


def _print(
    part: str,
    name: str,
    places: list[tuple[str, str]],
    now: dict[tuple[str, str], Size],
    before: dict[tuple[str, str], Size],
) -> None:
    size = sum((now.get(place, Size()) for place in places), Size())
    row = f"| {part} | {name} | {size.files} | {size.lines:,} | {size.statements:,} |"
    if before:
        old = sum((before.get(place, Size()) for place in places), Size())
        row += f" {size.lines - old.lines:+,} |"
    print(row)


if __name__ == "__main__":
    typer.run(main)
