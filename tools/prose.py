"""Find phrases that the rules of English in CONTRIBUTING.md forbid.

Run as `python -m tools.prose`, or as a part of `make check`. A docstring begins with a verb or a
noun. The numbers in `ALLOWED` only shrink: a file with fewer faults is an error, too.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
# How many faults a file may have: the question of a room, and a sentence of a tool for a model.
ALLOWED = {
    "core/marith/pocket/__init__.py": 1,
    "tools/way.py": 1,
}
ADAPTERS = ("langchain_marith", "llamaindex_marith", "packages")
FOLDERS = ("core", "docs", *ADAPTERS, "tools", "benchmarks")
OPENINGS = re.compile(r"(What|Whether|That of|Those of|The same|Who|Whoever)\b")
PHRASES = re.compile(
    r"\b(?i:so (many|much))\b(?! (that|as)\b)"  # write the name of the count
    r"|\bwhat (is|are|was) no\b|\b(is|are) none\b"  # write "an invalid X", "not an X"
    r"|\b(?i:by what|whoever|of which)\b"
)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def files() -> Iterator[Path]:
    """Yield the Python and Markdown files that are checked."""
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
            docstring = ast.get_docstring(node) if isinstance(node, DOCUMENTED) else None
            if opening := OPENINGS.match(docstring or ""):
                found.append((node.body[0].lineno, f"a docstring begins with {opening[0]}"))
    return [f"{path.relative_to(ROOT)}:{line}: {fault}" for line, fault in sorted(found)]


def main() -> int:
    """Print the faults of files that do not have the allowed number; return the exit code."""
    found = {str(path.relative_to(ROOT)): faults(path) for path in files()}
    wrong = [path for path in found if len(found[path]) != ALLOWED.get(path, 0)]
    for path in wrong:
        print(f"{path} has {len(found[path])} faults, and {ALLOWED.get(path, 0)} in ALLOWED")
        print(*found[path], sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
