"""Who may know whom: the design's rooms and doors as a table, held against every import."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "core" / "marith"
ADAPTERS = ("langchain_marith", "llamaindex_marith")

_MODELS = {"errors", "formula", "scoring"}
_ENGINE = {"errors", "formula", "request", "decoding", "scoring", "speculation", "engine"}
_ALL = {*_ENGINE, "recipes", "marith"}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "recent": set(),
    "formula": {"errors"},
    "recipes": {"errors", "formula"},
    "request": {"errors", "formula"},
    "decoding": {"errors", "formula", "request", "recent"},
    "scoring": {"errors", "formula", "request", "recent"},
    "speculation": {"errors", "formula", "request", "decoding"},
    "engine": {"errors", "recent", "formula", "request", "decoding", "scoring", "speculation"},
    "pocket": set(),
    "tables": {"errors"},
    "showing": {"errors"},
    "training": {"errors", "formula", "scoring", "showing", "tables"},
    "testing": _ENGINE,
    "options": {*_ENGINE, "recipes"},
    "evals": {*_ALL, "showing", "tables", "testing"},
    "server": _ALL,
    "demo": {*_ALL, "evals", "options"},
    "cli": {*_ALL, "demo", "evals", "server", "showing", "training"},
    "marith": {"errors", "formula", "recipes", "request", "engine", "options"},
    **{adapter: {"marith"} for adapter in ADAPTERS},
}
NO_TORCH = {
    "errors", "recent", "formula", "recipes", "request", "showing", "tables", "marith",
}  # fmt: skip
ONLY_IN: dict[str, set[str]] = {
    "threading": {"engine", "recent"},
    "asyncio": {"engine"},
    "queue": {"engine"},
    "concurrent": {"engine"},
    "multiprocessing": set(),
    "transformers": {"scoring", "evals", "testing", "training"},
    "optuna": {"evals"},
    "pandas": {"evals", "training"},
    "lm_eval": {"evals"},
    "peft": set(),
    "langchain_core": {"langchain_marith"},
    "llama_index": {"llamaindex_marith"},
    "pickle": set(),
    "dill": set(),
}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}


def sources() -> list[Path]:
    folders = [CORE, *(ROOT / adapter for adapter in ADAPTERS)]
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def room(path: Path) -> str:
    """The folder, or the lone module, directly under `core/marith`; an adapter is a room."""
    if not path.is_relative_to(CORE):
        return path.relative_to(ROOT).parts[0]
    first = path.relative_to(CORE).parts[0]
    return "marith" if first == "__init__.py" else first.removesuffix(".py")


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever: in functions and for type checking too."""
    for node in ast.walk(tree(path)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.ImportFrom(module=None):
                raise AssertionError(f"{path}: a relative import")
            case ast.Constant(value=str(text)) if text.startswith("marith."):
                yield text  # what the front door and the shelf import by name


def target(module: str) -> str:
    """The room that an import leads to; `marith` for the front door."""
    parts = module.split(".")
    inside = len(parts) > 1 and parts[0] == "marith"
    known = inside and ((CORE / parts[1]).is_dir() or (CORE / f"{parts[1]}.py").is_file())
    return parts[1] if known else parts[0]


FILES = sources()
NAMES = [str(path.relative_to(ROOT)) for path in FILES]
each_file = pytest.mark.parametrize("path", FILES, ids=NAMES)


def test_there_is_something_to_hold() -> None:
    assert {"errors", "formula", "decoding", "scoring", "engine"} <= {room(p) for p in FILES}
    assert target("marith.formula.tree.nodes.Sum") == "formula"
    assert target("marith.parse") == "marith"
    found = set(imported(CORE / "formula" / "tree" / "node.py"))
    assert found >= {
        "marith.formula.tree.bounds.refuse_beyond",
        "marith.formula.tree.printing.to_text",
    }


@each_file
def test_a_room_knows_its_neighbours_only(path: Path) -> None:
    own = room(path)
    assert own in MAY_IMPORT, f"{own!r} is a room that nobody designed"
    rooms = {target(m) for m in imported(path) if m.split(".")[0] in {"marith", *ADAPTERS}}
    assert rooms - {own} <= MAY_IMPORT[own]


@each_file
def test_what_belongs_to_one_room_stays_there(path: Path) -> None:
    for module in imported(path):
        allowed = ONLY_IN.get(module.split(".")[0])
        assert allowed is None or room(path) in allowed, module


@each_file
def test_the_algebra_needs_no_torch(path: Path) -> None:
    if room(path) in NO_TORCH:
        assert not {m.split(".")[0] for m in imported(path)} & {"torch", "numpy", "transformers"}


@each_file
def test_nothing_is_evaluated_and_core_is_no_package(path: Path) -> None:
    assert not any(module.split(".")[0] == "core" for module in imported(path))
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in FORBIDDEN_CALLS, node.lineno
        if isinstance(node, ast.keyword) and node.arg == "trust_remote_code":
            assert isinstance(node.value, ast.Constant)
            assert node.value.value is False


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").split("\n"))


@each_file
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert (ast.get_docstring(tree(path)) or "").strip()


@each_file
def test_files_and_functions_are_short(path: Path) -> None:
    assert _lines(path) <= 300
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 40, node.name


TESTS = sorted(path for folder in ("tests", "tools") for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", TESTS, ids=[str(path.relative_to(ROOT)) for path in TESTS])
def test_tests_are_short_files_with_a_purpose(path: Path) -> None:
    assert (ast.get_docstring(tree(path)) or "").strip()
    assert _lines(path) <= 300


@pytest.mark.parametrize(
    "module",
    ["marith", "marith.errors", "marith.formula.text.files", "marith.formula.text.explaining"],
)
def test_importing_the_algebra_does_not_import_torch(module: str) -> None:
    code = (
        f"import sys, {module}, marith; marith.parse('M - 0.5*a'); marith.explain('M + a')\n"
        "loaded = {'torch', 'transformers', 'numpy'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
