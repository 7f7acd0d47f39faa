"""The page for LangChain: its reference is what the docstrings say, its programs are there."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_reference_is_what_docstrings_say() -> None:
    written = runpy.run_path(str(DOCS / "reference.py"))
    page = (DOCS / "langchain_reference.md").read_text(encoding="utf-8")
    assert page == written["page"](), "run `python docs/reference.py`"


def test_every_program_for_langchain_is_on_its_page() -> None:
    page = (DOCS / "langchain.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"examples/(langchain_\w+\.py)", page))
    assert shown == {path.name for path in (DOCS / "examples").glob("langchain_*.py")}
