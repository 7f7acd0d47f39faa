"""Who may import whom: the rooms of `core/README.md` as a table, held against every import."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "core" / "marith"
ADAPTERS = ("langchain_marith", "llamaindex_marith")
DATA = {"errors", "formula", "request"}
APPLICATIONS = {"demo", "evals", "serving", "training"}
ENGINE = {*DATA, "decoding", "scoring", "speculation", "answers", "engine"}
WITH_TORCH = {"engine", "inspection", "scoring", "speculation"}  # options import them when called
MAY_IMPORT: dict[str, set[str]] = {
    **{shelf: set[str]() for shelf in ("errors", "lru", "openmp", "pocket")},
    **{shelf: set[str]() for shelf in ("tensor_rows", "token_bytes")},
    **{key: {"errors"} for key in ("formula", "tables", "console")},
    **{key: {"errors", "formula"} for key in ("recipes", "request")},
    "openai_format": {"errors", "request"},
    "options": {*DATA, "recipes", *WITH_TORCH},
    "decoding": {*DATA, "tensor_rows", "token_bytes"},
    "speculation": {*DATA, "decoding", "scoring", "tensor_rows"},
    "answers": {*DATA, "decoding", "scoring.prompting", "lru", "tensor_rows"},
    "engine": {*ENGINE, "lru", "console", "tensor_rows"},
    "inspection": {*ENGINE, "tensor_rows"},
    "testing": ENGINE,
    "models": {"errors", "engine", "formula", "scoring"},
    "training": {*DATA, "scoring", "console", "tables"},
    "marith": {*DATA, *WITH_TORCH, "recipes", "models", "options", "openmp"},
    **{key: {"marith", "openai_format"} for key in ADAPTERS},
    "serving": {"marith", "openai_format", "recipes"},
    "evals": {"marith", "models", "errors", "openai_format", "console", "request"},
    "demo": {"marith", "models", "evals"},
    "cli": {*APPLICATIONS, "marith", "models", "recipes", "errors", "console"},
    "__main__": {"cli"},
}  # fmt: skip
# Floors of `scoring`: a file imports its own and those before it. No strategy imports another.
STRATEGIES = ("segments", "rectangle", "states", "llama_cpp")
FLOORS = (
    ("notices", "cpu_threads"), ("free_memory",), ("cache_limit",), ("lane_text",), ("prompting",),
    ("weights",), ("passes",), tuple(f"passes.{strategy}" for strategy in STRATEGIES), ("scorer",),
    ("terms", "term_lanes"), ("choose_runner", "model_warnings"), ("registry",),
)  # fmt: skip
below = {*DATA, "lru", "openmp", "tensor_rows", "token_bytes"}
for names in (("__init__",), *FLOORS):
    MAY_IMPORT |= {f"scoring.{name}": {*below} for name in names}
    below |= {f"scoring.{name}" for name in names}
WITHOUT_TORCH = {*DATA, "recipes", "options", "openai_format", "console", "tables", "lru"}
WITHOUT_TORCH |= {"openmp", "marith"}
ONLY_IN: dict[str, set[str]] = {
    "threading": {"engine", "lru", "serving"}, "asyncio": {"engine", "evals", "serving"},
    "concurrent": {"engine", "inspection", "serving"}, "queue": {"engine"},
    "transformers": {"scoring", "testing", "training"},
    "pandas": {"evals", "training", "inspection"},
    **{key: {"evals"} for key in ("inspect_ai", "optuna", "scipy", "lm_eval")},
    **{key: {"inspection"} for key in ("anywidget", "traitlets")},
    "langchain_core": {"langchain_marith"}, "llama_index": {"llamaindex_marith"},
    **{module: set[str]() for module in ("multiprocessing", "peft", "pickle", "dill")},
}  # fmt: skip
FOLDERS = (CORE, *(ROOT / adapter for adapter in ADAPTERS))
FILES = {path: None for folder in FOLDERS for path in sorted(folder.rglob("*.py"))}


@cache
def imported(path: Path) -> frozenset[str]:
    """Every module that a file imports, wherever; names of modules in texts too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                found.update(alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names):
                found.update(f"{module}.{alias.name}" for alias in names)
            case ast.Constant(value=str(text)) if text.startswith("marith."):
                found.add(text)
    return frozenset(found)


def room(path: Path) -> str:
    """The room of a file; an adapter is a room, and the front door is called `marith`."""
    if not path.is_relative_to(CORE):
        return path.relative_to(ROOT).parts[0]
    name = floor(path.relative_to(CORE).with_suffix("").parts)
    return "marith" if name == "__init__" else name


def floor(parts: Sequence[str]) -> str:
    """The room of a path in the package; a floor of `scoring` is a room of its own."""
    names = (".".join(parts[:length]) for length in (3, 2))
    return next((name for name in names if name in MAY_IMPORT), "".join(parts[:1]))


def target(module: str) -> str:
    """The room that an import leads to."""
    first, *parts = module.split(".")
    name = floor(parts)
    return name if first == "marith" and name in MAY_IMPORT else first


@cache
def file_of(module: str) -> Path | None:
    """The file of ours that an import of `module`, or of a name in it, leads to."""
    folder = CORE.parent if module.startswith("marith.") else ROOT
    path = folder.joinpath(*module.split("."))
    found = (path.with_suffix(".py"), path.parent.with_suffix(".py"))
    return next((path for path in found if path in FILES), None)


def test_every_room_imports_only_the_rooms_of_its_row() -> None:
    for path in FILES:
        may = {room(path), *MAY_IMPORT[room(path)]}
        rooms = {*map(target, imported(path))} & {*MAY_IMPORT}
        strangers = {name for name in rooms if not may & {name, name.partition(".")[0]}}
        assert not strangers, path


def test_no_two_files_import_each_other() -> None:
    """Directly or by way of others: files can be put in an order in which imports go down."""
    files = set(FILES)
    while files:
        free = {path for path in files if not files & {*map(file_of, imported(path))} - {path}}
        assert free, sorted(str(path.relative_to(ROOT)) for path in files)
        files -= free


def test_a_library_is_imported_only_in_its_rooms() -> None:
    for path in FILES:
        own = room(path).partition(".")[0]
        libraries = {name.partition(".")[0] for name in imported(path)}
        heavy = {"torch", "numpy", "transformers"} if own in WITHOUT_TORCH else set()
        wrong = {one for one in libraries if own not in ONLY_IN.get(one, {own})}
        assert not wrong | (libraries & heavy), path


def test_the_front_door_and_the_algebra_import_no_library_that_is_slow_to_import() -> None:
    data = "marith.options.options, marith.request.request, marith.request.completion"
    algebra = """
marith.Inspection.json_schema()
marith.parse("M - 0.5*a"); marith.explain("M + a")
"""
    slow = {"torch", "transformers", "numpy"}
    others = {"pydantic", "rich", "typer", "tokenizers", "jinja2"}
    for code, never in (("", slow | others), (f"import {data}{algebra}", slow)):
        check = (
            f"import sys, marith\n{code}\nassert not {never} & {{*sys.modules}}, {{*sys.modules}}"
        )
        subprocess.run([sys.executable, "-c", check], check=True)
