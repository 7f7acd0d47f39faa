"""The adapters' pages: a reference is what the docstrings say, every program is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import reference

DOCS = Path(__file__).parents[2] / "docs"
adapters = pytest.mark.parametrize("adapter", ["langchain", "llamaindex"])


@adapters
def test_the_reference_is_what_docstrings_say(adapter: str) -> None:
    page = DOCS / "reference" / f"{adapter}_marith.md"
    written = reference.pages()
    assert page.read_text(encoding="utf-8") == written[page], "run `make reference`"


@adapters
def test_every_program_is_on_its_page(adapter: str) -> None:
    page = (DOCS / "how-to" / f"{adapter}.md").read_text(encoding="utf-8")
    shown = set(re.findall(rf"examples/({adapter}_\w+\.py)", page))
    assert shown == {path.name for path in (DOCS / "examples").glob(f"{adapter}_*.py")}
