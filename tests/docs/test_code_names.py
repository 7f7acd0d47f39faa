"""Names of code on pages: tests and dotted names of marith that they name exist."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


def spans(page: Path) -> list[str]:
    """The code spans of a page, without those of its blocks."""
    text = page.read_text(encoding="utf-8")
    return SPAN.findall(re.sub(r"^```\w*\n.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


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
