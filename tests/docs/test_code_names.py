"""Names of code on pages: classes, methods, functions and tests that they name exist."""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
TOLD = [page for page in PAGES if page.parent.name in {"explanation", "tutorials"}]
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
DOTTED = re.compile(r"([A-Za-z_]\w*)\.([a-z_]\w*)(?:\(.*\))?")
CLASS = re.compile(r"[A-Z][a-z]\w*[A-Z]\w*")
# What pages call a value of a class.
VALUES = {"engine": "Engine", "out": "Completion", "stats": "Stats", "usage": "Usage"}
THEIRS = {"Settings"}  # a name that LlamaIndex has too
LETTERS = {"F", "M"}  # formulas
OTHERS = {"marith", "os", "json", "gc", "house"}
PACKAGES = ("core/marith", "langchain_marith", "llamaindex_marith")


@cache
def code() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """What the modules define, by their names, and the classes, each with what it inherits."""
    modules: dict[str, set[str]] = defaultdict(set)
    classes: dict[str, set[str]] = defaultdict(set)
    bases: dict[str, set[str]] = defaultdict(set)
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            modules[path.stem].update(defined(tree))
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    classes[node.name].update(defined(node))
                    bases[node.name].update(b.id for b in node.bases if isinstance(b, ast.Name))
    inherited = {kind: closure(kind, bases) for kind in classes}
    full = {kind: {a for of in inherited[kind] for a in classes.get(of, ())} for kind in classes}
    return dict(modules), full


def closure(kind: str, bases: dict[str, set[str]]) -> set[str]:
    """A class and all that it inherits from; some have the name of their base."""
    found, new = set[str](), {kind}
    while new:
        found |= new
        new = {base for each in new for base in bases.get(each, ())} - found
    return found


def defined(tree: ast.Module | ast.ClassDef) -> Iterator[str]:
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def spans(page: Path) -> list[str]:
    """The code spans of a page, without those of its blocks."""
    text = page.read_text(encoding="utf-8")
    return SPAN.findall(re.sub(r"^```\w*\n.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def missing(page: Path) -> Iterator[str]:
    """The attributes that a page names and the code does not have.

    Explanations name modules and classes of ours alone; other pages name those of frameworks too.
    """
    modules, classes = code()
    for span in spans(page):
        if not (found := DOTTED.fullmatch(span)):
            continue
        owner, attribute = VALUES.get(found[1], found[1]), found[2]
        if owner in classes and owner not in THEIRS:
            known = attribute in classes[owner]
        elif page in TOLD and owner not in LETTERS:
            known = attribute in modules.get(owner, ()) or owner in OTHERS
        else:
            known = True
        if not known:
            yield span


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "changelog.md"], ids=name)
def test_every_method_and_function_that_a_page_names_exists(page: Path) -> None:
    assert list(missing(page)) == []


@pytest.mark.parametrize("page", TOLD, ids=name)
def test_every_class_that_an_explanation_names_exists(page: Path) -> None:
    named = {span for span in spans(page) if CLASS.fullmatch(span)}
    assert sorted(named - code()[1].keys() - set(dir(builtins))) == []


def test_every_test_that_a_page_names_exists() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    for page in PAGES:
        named = [span for span in spans(page) if re.fullmatch(r"test_\w+", span)]
        missing = [each for each in named if f"def {each}(" not in source]
        assert missing == [], name(page)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_dotted_name_of_marith_that_a_page_names_exists(page: Path) -> None:
    if page.name == "changelog.md":
        return  # which names what there was
    paths = {span for span in spans(page) if re.fullmatch(r"marith(\.\w+)+", span)}
    assert [path for path in paths - {"marith.toml"} if not _exists(path)] == []


def _exists(path: str) -> bool:
    """Whether a dotted name is a module, or what one defines."""
    module, _, last = path.rpartition(".")
    try:
        return find_spec(path) is not None or hasattr(import_module(module), last)
    except ModuleNotFoundError:
        return hasattr(import_module(module), last)
