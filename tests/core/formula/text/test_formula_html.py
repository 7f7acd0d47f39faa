"""A notebook shows a formula: its text, and the tree that `explain` draws."""

from __future__ import annotations

from hypothesis import given
from support.html_pages import ParsedHtml
from support.strategies import formulas

from marith import parse
from marith.formula.text.explaining import draw_tree
from marith.formula.tree.nodes import Formula

EVIL = '<script>alert("x")</script>'


@given(formulas())
def test_the_list_has_the_text_and_the_lines_of_the_drawn_tree(f: Formula) -> None:
    page = ParsedHtml(f._repr_html_())
    lines = [line.lstrip("│├└─ ") for line in draw_tree(f).split("\n")]
    assert page.texts == [str(f), *lines] if len(lines) > 1 else [str(f)]
    assert set(page.tags) <= {"code", "ul", "li"}


def test_texts_in_a_formula_are_no_markup() -> None:
    formula = parse(f"M + prompted({EVIL!r}) + classifier({EVIL!r}, label={EVIL!r})")
    page = ParsedHtml(formula._repr_html_())
    assert "script" not in page.tags
    assert page.text.count("<script>") == 6
