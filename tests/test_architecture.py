"""Who may import whom: the rooms of `core/README.md` as a table, held against every import."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "core" / "marith"
ADAPTERS = ("langchain_marith", "llamaindex_marith")
DATA = {"errors", "formula", "request"}
APPLICATIONS = {"demo", "evals", "serving", "training"}
ENGINE = {*DATA, "decoding", "scoring", "speculation", "answers", "engine"}
INNER = {"recipes", "models", "engine", "inspection", "options", "scoring", "spinning"}
MAY_IMPORT: dict[str, set[str]] = {
    **{shelf: set[str]() for shelf in ("errors", "recent", "spinning", "tensor_rows", "pocket")},
    **{key: {"errors"} for key in ("formula", "tables", "showing")},
    **{key: {"errors", "formula"} for key in ("recipes", "request")},
    "openai_format": {"errors", "request"},
    "options": {*DATA, "recipes"},
    "decoding": DATA,
    "scoring": {*DATA, "recent", "spinning", "tensor_rows"},
    "speculation": {*DATA, "decoding", "tensor_rows"},
    "answers": {*DATA, "decoding", "scoring", "recent", "tensor_rows"},
    "engine": {*ENGINE, "recent", "tensor_rows"},
    "inspection": {*ENGINE, "tensor_rows"},
    "testing": ENGINE,
    "models": {"errors", "engine", "formula", "scoring"},
    "training": {*DATA, "scoring", "showing", "tables"},
    "marith": {*DATA, *INNER},
    **{key: {"marith", "openai_format"} for key in (*ADAPTERS, "serving")},
    "evals": {"marith", "models", "errors", "openai_format", "showing", "request"},
    "demo": {"marith", "models", "evals"},
    "cli": {*APPLICATIONS, "marith", "models", "recipes", "errors", "showing"},
    "__main__": {"cli"},
}  # fmt: skip
# What plain data needs of rooms with torch is imported when it is called.
WHEN_CALLED = {"options": {"engine", "inspection", "scoring", "speculation"}}
# Floors of the room `scoring`: a file imports its own floor and those below.
FLOORS = ("notices", "memory", "prompting", "weights", "passes", "scorer", "terms", "registry")
PLAIN = {"recipes", "options", "openai_format", "showing", "tables", "recent", "spinning", "marith"}
WITHOUT_TORCH = DATA | PLAIN
ONLY_IN: dict[str, set[str]] = {
    "threading": {"engine", "recent", "serving"},
    "asyncio": {"engine", "evals", "serving"},
    "queue": {"engine"},
    "concurrent": {"engine", "inspection", "serving"},
    "transformers": {"scoring", "testing", "training"},
    "pandas": {"evals", "training", "inspection"},
    **{key: {"evals"} for key in ("inspect_ai", "optuna", "scipy", "lm_eval")},
    **{key: {"inspection"} for key in ("anywidget", "traitlets")},
    "langchain_core": {"langchain_marith"},
    "llama_index": {"llamaindex_marith"},
    **{module: set[str]() for module in ("multiprocessing", "peft", "pickle", "dill")},
}
FOLDERS = (CORE, *(ROOT / adapter for adapter in ADAPTERS))
FILES = sorted(path for folder in FOLDERS for path in folder.rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported(path: Path) -> frozenset[str]:
    """Every module that a file imports, wherever; names of modules in texts too."""
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        match node:
            case ast.Import(names=names):
                found.update(alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names):
                found.update(f"{module}.{alias.name}" for alias in names)
            case ast.Constant(value=str(text)) if text.startswith("marith."):
                found.add(text)
    return frozenset(found)


def room(path: Path) -> str:
    """The folder, or the lone module, directly under `core/marith`; an adapter is a room."""
    if not path.is_relative_to(CORE):
        return path.relative_to(ROOT).parts[0]
    first = path.relative_to(CORE).parts[0]
    return "marith" if first == "__init__.py" else first.removesuffix(".py")


def target(module: str) -> str:
    """The room that an import leads to; `marith` for the front door."""
    first, _, rest = module.partition(".")
    inside = rest.partition(".")[0] if first == "marith" else ""
    known = inside and ((CORE / inside).is_dir() or (CORE / f"{inside}.py").is_file())
    return inside if known else first


def floor(module: str) -> int:
    """The number of a module's floor in `scoring`; -1 for modules elsewhere."""
    name = module.removeprefix("marith.scoring.").partition(".")[0]
    return FLOORS.index(name) if module.startswith("marith.scoring.") and name in FLOORS else -1


def file_of(module: str) -> Path | None:
    """The file of ours that an import of `module`, or of a name in it, leads to."""
    parts = module.split(".")
    paths = (CORE.joinpath(*parts[1:end]).with_suffix(".py") for end in (len(parts), -1))
    return next((path for path in paths if path.is_file()), None) if parts[0] == "marith" else None


def hold(offenders: Iterator[str]) -> None:
    """Assert that nobody breaks a rule; all who do are listed."""
    listed = sorted(offenders)
    assert not listed, "\n".join(listed)


def test_every_room_imports_its_neighbours_alone() -> None:
    def strangers() -> Iterator[str]:
        for path in FILES:
            own = room(path)
            later = WHEN_CALLED.get(own, set())
            top = [node for node in tree(path).body if isinstance(node, ast.ImportFrom)]
            first = {target(node.module or "") for node in top}
            rooms = {target(name) for name in imported(path)} & {*MAY_IMPORT}
            for name in (first & later) | (rooms - MAY_IMPORT[own] - later - {own}):
                yield f"{path.relative_to(ROOT)}: {name}"

    hold(strangers())


def test_imports_within_scoring_go_down() -> None:
    def above() -> Iterator[str]:
        for path in (path for path in FILES if room(path) in ("scoring", "answers")):
            inside = ".".join(["marith", *path.relative_to(CORE).with_suffix("").parts])
            own = floor(inside) if room(path) == "scoring" else FLOORS.index("prompting")
            yield from (f"{inside}: {name}" for name in imported(path) if floor(name) > own)

    hold(above())


def test_no_two_files_import_each_other() -> None:
    """Directly or by way of others: files can be put in an order in which imports go down."""
    files = {path for path in FILES if room(path) != "evals"}  # whose provider Inspect imports
    while files:
        free = {path for path in files if not files & {*map(file_of, imported(path))} - {path}}
        assert free, sorted(str(path.relative_to(ROOT)) for path in files)
        files -= free


def test_a_library_is_imported_in_its_rooms_alone() -> None:
    def misplaced() -> Iterator[str]:
        for path in FILES:
            libraries = {name.partition(".")[0] for name in imported(path)}
            heavy = {"torch", "numpy", "transformers"} if room(path) in WITHOUT_TORCH else set()
            wrong = {one for one in libraries if not ONLY_IN.get(one, {room(path)}) & {room(path)}}
            yield from (f"{path.relative_to(ROOT)}: {one}" for one in wrong | (libraries & heavy))

    hold(misplaced())


def test_nothing_is_evaluated_and_no_code_of_checkpoints_runs() -> None:
    danger = re.compile(r"(?<![.\w`])(eval|exec|__import__)\(|trust_remote_code\W+True")
    hold(str(path) for path in FILES if danger.search(path.read_text(encoding="utf-8")))


def test_importing_the_algebra_and_saved_inspections_does_not_import_torch() -> None:
    code = """
import sys
import marith, marith.options.options, marith.request.request, marith.request.completion
marith.Inspection.json_schema()
marith.parse("M - 0.5*a"); marith.explain("M + a")
loaded = {"torch", "transformers", "numpy"} & set(sys.modules)
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)
