"""The reference: generated pages are what the code says, and every program is on its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from marith.formula.text.calls import CALLS
from tools.reference import pages
from tools.reference.formula_language import calls

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    return pages.pages()


def test_the_committed_pages_are_what_the_code_says(written: dict[str, str]) -> None:
    committed = {name: (DOCS / "reference" / name).read_text(encoding="utf-8") for name in written}
    stale = [name for name, text in written.items() if committed[name] != text]
    assert stale == [], "run `make reference`"


def test_every_call_of_a_formula_has_a_section_and_a_docstring(written: dict[str, str]) -> None:
    page = re.sub(r"\[(`?\w+`?)\]\([^)]*\)", r"\1", written[pages.LANGUAGE])  # without links
    for name in (name for kind in calls().values() for name in kind):
        section = page.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
        assert section, name
        assert (CALLS[name].__doc__ or "").splitlines()[0] in section
