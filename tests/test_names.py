"""One name for one thing: no public class and no module has the name of another.

`repeated_names.toml` lists those that have one still. The list only shrinks: a name that occurs
once has to leave it, and none may join.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("core/marith", "langchain_marith", "llamaindex_marith")
LIST = ROOT / "tests" / "repeated_names.toml"
UNNAMED = {"__init__", "__main__"}


def files() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))


def modules() -> Iterator[str]:
    yield from (path.stem for path in files() if path.stem not in UNNAMED)


def classes() -> Iterator[str]:
    for path in files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name


def repeated(names: Iterator[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def listed(kind: str) -> list[str]:
    return list(tomllib.loads(LIST.read_text(encoding="utf-8"))[kind])


def test_no_module_has_the_name_of_another_but_those_listed() -> None:
    assert repeated(modules()) == listed("modules")


def test_no_public_class_has_the_name_of_another_but_those_listed() -> None:
    assert repeated(classes()) == listed("classes")
