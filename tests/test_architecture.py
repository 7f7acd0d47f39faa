"""Who may know whom: the design's rooms and doors as a table, held against every import."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "core" / "marith"
ADAPTERS = ("langchain_marith", "llamaindex_marith")

_ASKED = {"errors", "formula", "request"}
_BELOW = {"errors", "formula", "request", "decoding", "scoring", "speculation", "answers"}
_ENGINE = {*_BELOW, "engine"}
_APPLICATIONS = {"demo", "evals", "serving", "training"}
MAY_IMPORT: dict[str, set[str]] = {
    **{shelf: set[str]() for shelf in ("errors", "recent", "spinning", "tensor_rows")},
    "formula": {"errors"},
    "recipes": {"errors", "formula"},
    "request": {"errors", "formula"},
    "decoding": {"errors", "formula", "request"},
    "scoring": {"errors", "formula", "request", "recent", "spinning", "tensor_rows"},
    "speculation": {"errors", "formula", "request", "decoding", "tensor_rows"},
    "answers": {"errors", "formula", "request", "decoding", "scoring", "recent", "tensor_rows"},
    "engine": {*_BELOW, "recent", "tensor_rows"},
    "inspection": {*_ENGINE, "tensor_rows"},
    "pocket": set(),
    "tables": {"errors"},
    "showing": {"errors"},
    "training": {"errors", "formula", "request", "scoring", "showing", "tables"},
    "testing": _ENGINE,
    "options": {"errors", "formula", "recipes", "request"},
    "models": {"errors", "engine", "formula", "scoring"},
    "evals": {"marith", "models", "errors", "openai_format", "showing", "request"},
    "serving": {"marith", "openai_format"},
    "openai_format": {"errors", "request"},
    "demo": {"marith", "models", "evals"},
    "cli": {"marith", "models", "recipes", "errors", "showing", *_APPLICATIONS},
    "__main__": {"cli"},
    "marith": {"recipes", "engine", "inspection", "options", "scoring", "spinning", *_ASKED},
    **{adapter: {"marith", "openai_format"} for adapter in ADAPTERS},
}
# What plain data needs of rooms with torch is imported when it is called.
WHEN_CALLED = {"options": {"engine", "inspection", "scoring", "speculation"}}
# Floors of the room `scoring`: a file imports its own floor and those below.
FLOORS = ("notices", "memory", "prompting", "weights", "passes", "scorer", "terms", "registry")
OF_SCORING = {"answers": {"prompting"}}  # how texts are written: no model is known to `answers`
WITH_CIRCLES = {"evals"}  # in all other rooms no file imports one that imports it
NO_TORCH = {
    "errors", "recent", "spinning", "formula", "recipes", "request", "options", "openai_format",
    "showing", "tables", "marith",
}  # fmt: skip
ONLY_IN: dict[str, set[str]] = {
    "threading": {"engine", "recent", "serving"},
    "asyncio": {"engine", "evals", "serving"},
    "queue": {"engine"},
    "concurrent": {"engine", "inspection", "serving"},
    "transformers": {"scoring", "testing", "training"},
    "inspect_ai": {"evals"},
    "optuna": {"evals"},
    "pandas": {"evals", "training", "request"},
    **{module: {"request"} for module in ("anywidget", "traitlets")},
    "scipy": {"evals"},
    "lm_eval": {"evals"},
    "langchain_core": {"langchain_marith"},
    "llama_index": {"llamaindex_marith"},
    **{module: set[str]() for module in ("multiprocessing", "peft", "pickle", "dill")},
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
TESTS = sorted(path for folder in ("tests", "tools") for path in (ROOT / folder).rglob("*.py"))
Rule: TypeAlias = "Callable[[Path], Iterator[object]]"  # what in a file breaks it


def hold(rule: Rule, files: Sequence[Path] = FILES) -> None:
    """Assert that no file breaks a rule; all that do are listed."""
    offenders = [f"{path.relative_to(ROOT)}: {what}" for path in files for what in rule(path)]
    assert not offenders, "\n".join(offenders)


def test_a_room_knows_its_neighbours_only() -> None:
    def strangers(path: Path) -> Iterator[str]:
        own = room(path)
        if own not in MAY_IMPORT:
            yield f"{own!r} is a room that nobody designed"
            return
        rooms = {target(m) for m in imported(path) if m.split(".")[0] in {"marith", *ADAPTERS}}
        yield from sorted(rooms - {own} - MAY_IMPORT[own] - WHEN_CALLED.get(own, set()))

    hold(strangers)


def test_what_is_for_calls_is_imported_by_them() -> None:
    def early(path: Path) -> Iterator[str]:
        modules = (n.module or "" for n in tree(path).body if isinstance(n, ast.ImportFrom))
        yield from sorted({target(m) for m in modules} & WHEN_CALLED.get(room(path), set()))

    hold(early)


def test_answers_know_of_scoring_only_how_texts_are_written() -> None:
    def strangers(path: Path) -> Iterator[str]:
        known = OF_SCORING.get(room(path))
        modules = {m.split(".")[2] for m in imported(path) if m.startswith("marith.scoring.")}
        yield from sorted(modules - known if known is not None else set())

    assert any(room(path) in OF_SCORING for path in FILES)
    hold(strangers)


def test_no_floor_of_scoring_imports_one_above_it() -> None:
    def above(path: Path) -> Iterator[str]:
        own = floor(".".join(["marith", *path.relative_to(CORE).with_suffix("").parts]))
        yield from (m for m in imported(path) if floor(m) > own)

    hold(above, [path for path in FILES if room(path) == "scoring"])


def floor(module: str) -> int:
    """The number of a module's floor in `scoring`; -1 for modules elsewhere."""
    parts = module.split(".")
    inside = parts[:2] == ["marith", "scoring"] and parts[2:] and parts[2] in FLOORS
    return FLOORS.index(parts[2]) if inside else -1


def test_no_two_files_of_a_room_import_each_other() -> None:
    """Directly or by way of others: files can be put in an order in which imports go down."""
    for each in sorted(set(map(room, FILES)) - WITH_CIRCLES):
        files = {path for path in FILES if room(path) == each}
        while files:
            own = {path: set(map(file_of, imported(path))) - {path} for path in files}
            free = {path for path in files if not files & own[path]}
            assert free, sorted(str(path.relative_to(CORE)) for path in files)
            files -= free


def file_of(module: str) -> Path | None:
    """The file of ours that an import of `module`, or of a name in it, leads to."""
    parts = module.split(".")
    paths = (CORE.joinpath(*parts[1:end]).with_suffix(".py") for end in (len(parts), -1))
    return next((path for path in paths if path.is_file()), None) if parts[0] == "marith" else None


def test_what_belongs_to_one_room_stays_there() -> None:
    def misplaced(path: Path) -> Iterator[str]:
        for module in imported(path):
            allowed = ONLY_IN.get(module.split(".")[0])
            own = path.relative_to(CORE).as_posix() if path.is_relative_to(CORE) else ""
            if allowed is not None and not allowed & {room(path), own}:
                yield module

    hold(misplaced)


def test_the_algebra_needs_no_torch() -> None:
    def heavy(path: Path) -> Iterator[str]:
        if room(path) in NO_TORCH:
            modules = {module.split(".")[0] for module in imported(path)}
            yield from sorted(modules & {"torch", "numpy", "transformers"})

    hold(heavy)


def test_nothing_is_evaluated_and_core_is_no_package() -> None:
    def dangers(path: Path) -> Iterator[str]:
        yield from (module for module in imported(path) if module.split(".")[0] == "core")
        for node in ast.walk(tree(path)):
            match node:
                case ast.Call(func=ast.Name(id=name)) if name in FORBIDDEN_CALLS:
                    yield f"{name} in line {node.lineno}"
                case ast.keyword(arg="trust_remote_code", value=value):
                    if not (isinstance(value, ast.Constant) and value.value is False):
                        yield f"trust_remote_code in line {value.lineno}"

    hold(dangers)


def without_docstring(path: Path) -> Iterator[str]:
    if not (ast.get_docstring(tree(path)) or "").strip():
        yield "no docstring"


def too_long(path: Path) -> Iterator[str]:
    lines = len(path.read_text(encoding="utf-8").split("\n"))
    if lines > 500:
        yield f"{lines} lines"


def test_every_module_is_short_and_says_what_it_is_for() -> None:
    for files in (FILES, TESTS):
        hold(without_docstring, files)
        hold(too_long, files)


def test_no_public_class_has_the_name_of_another() -> None:
    nodes = (node for path in FILES for node in ast.walk(tree(path)))
    names = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    assert [name for name in names if names[name] > 1 and not name.startswith("_")] == []


WITHOUT_TORCH = (
    "marith",
    "marith.errors",
    "marith.formula.text.files",
    "marith.formula.text.explaining",
    "marith.request.request",
    "marith.request.completion",
    "marith.options.options",
)


def test_importing_the_algebra_does_not_import_torch() -> None:
    code = """
import importlib, sys
for module in sys.argv[1:]:
    importlib.import_module(module)
    loaded = {"torch", "transformers", "numpy"} & set(sys.modules)
    assert not loaded, (module, loaded)
import marith
marith.parse("M - 0.5*a"); marith.explain("M + a")
loaded = {"torch", "transformers", "numpy"} & set(sys.modules)
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", code, *WITHOUT_TORCH], check=True)
