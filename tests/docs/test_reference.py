"""The reference: generated pages are what the code says, and every program is on its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import langchain_marith
import llamaindex_marith
import marith
from marith import models, recipes, testing, training
from marith.formula.text.calls import CALLS
from tools.reference import pages
from tools.reference.formula_language import calls

PUBLIC = (marith, langchain_marith, llamaindex_marith, models, recipes, testing, training)
HEADING = re.compile(r"^#+ `?([^`\n]+)", re.MULTILINE)
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


def test_every_public_name_has_a_heading(written: dict[str, str]) -> None:
    headings = {heading for text in written.values() for heading in HEADING.findall(text)}
    terms = {term.__name__: name for name, term in calls()["terms"].items()}  # as text writes them
    missing = [
        f"{module.__name__}.{name}"
        for module in PUBLIC
        for name in module.__all__
        if terms.get(name, name) not in headings
    ]
    assert missing == []
