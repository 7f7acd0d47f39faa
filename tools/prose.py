"""Find phrases that the rules of English in CONTRIBUTING.md forbid.

Run as `python -m tools.prose`, or as a part of `make check`. A file may have as many as
`tools/prose_allowed.txt` says. The list only shrinks: a file with fewer is an error too, until
`python -m tools.prose --lower` has lowered its number. Docstrings begin with a verb or a noun.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ALLOWED = ROOT / "tools" / "prose_allowed.txt"
FOLDERS = ("core", "docs", "langchain_marith", "llamaindex_marith", "tools", "benchmarks")
OPENINGS = re.compile(r"(What|Whether|That of|Those of|The same|Who|Whoever)\b")
PHRASES = re.compile(
    r"\b(?i:so (many|much))\b(?! (that|as)\b)"  # name the count
    r"|\bwhat (is|are|was) no\b|\b(is|are) none\b"  # "an invalid X", "not an X"
    r"|\b(?i:by what|whoever|of which)\b"
)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def files() -> Iterator[Path]:
    """Yield the files that are checked: Python and Markdown, without generated pages' sources."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".md") and path != Path(__file__):
                yield path
    yield from sorted(ROOT.glob("*.md"))


def faults(path: Path) -> list[str]:
    """Return the faults of a file, each with its line."""
    text = path.read_text(encoding="utf-8")
    found = [
        (text.count("\n", 0, match.start()) + 1, match[0].lower())
        for match in PHRASES.finditer(text)
    ]
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, DOCUMENTED) and (opening := OPENINGS.match(_docstring(node))):
                found.append((node.body[0].lineno, f"a docstring begins with {opening[0]}"))
    return [f"{path.relative_to(ROOT)}:{line}: {fault}" for line, fault in sorted(found)]


def _docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return ast.get_docstring(node) or ""


def allowed() -> dict[str, int]:
    """Return how many faults each file may have."""
    lines = ALLOWED.read_text(encoding="utf-8").splitlines() if ALLOWED.exists() else []
    return {path: int(count) for path, count in (line.rsplit(" ", 1) for line in lines)}


def main() -> int:
    """Print the faults of files that have more than they may; return the exit code."""
    may = allowed()
    found = {str(path.relative_to(ROOT)): faults(path) for path in files()}
    counts = {path: len(lines) for path, lines in found.items() if lines}
    if "--lower" in sys.argv:
        lower = {path: min(n, may.get(path, n)) for path, n in counts.items()}
        ALLOWED.write_text("".join(f"{path} {n}\n" for path, n in sorted(lower.items())))
        return 0
    more = [path for path, count in counts.items() if count > may.get(path, 0)]
    for path in more:
        print(*found[path], sep="\n")
    fewer = [path for path, count in may.items() if counts.get(path, 0) < count]
    if fewer:
        print(f"fewer faults than allowed in {', '.join(fewer)}: python -m tools.prose --lower")
    return int(bool(more or fewer))


if __name__ == "__main__":
    sys.exit(main())
