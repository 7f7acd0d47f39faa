"""A notebook shows an inspection: no markup but its own, and whole characters."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from support.example_inspection import inspection

from marith.inspection.inspected_position import LikelyToken

HOSTILE = [
    '<script>alert("x & y")</script>\'<b title="', "</span><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)', "\x1b[31m", "left\u202eright", "\u2028", "\x00", "&lt;b&gt;",
]  # fmt: skip
WHOLE = inspection()
(ONE,) = WHOLE.positions


def elements(html: str) -> list[ElementTree.Element]:
    """The elements of a fragment in order. Raises ParseError for tags that do not match."""
    return [*ElementTree.fromstring(f"<page>{html}</page>").iter()][1:]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_was_generated_or_given_is_markup(text: str) -> None:
    likely = LikelyToken(1, text, -1.0)
    position = replace(ONE, text=text, top=(likely,), bare_likeliest=likely, reference=likely)
    parts = tuple(replace(part, text=text) for part in WHOLE.parts)
    html = replace(WHOLE, positions=(position,), parts=parts, formula=text)._repr_html_()
    tags = [each.tag for each in elements(html)]
    assert set(tags) <= {"div", "span", "small", "table", "thead", "tbody", "tr", "th", "td"}
    assert set(re.findall(r"<\w+ (\w+)=", html)) <= {"style", "title"}
    assert not {"\x1b", "\u202e", "\u2028", "\x00"}.intersection(html)
    assert [each.tag for each in elements(WHOLE._repr_html_())] == tags


def test_the_tokens_of_one_character_are_shown_together() -> None:
    parts = replace(ONE, text="�", completed="", flipped=False, logprob=-0.5)
    texts = ("a", "日", "🙂", "b")
    positions = [
        replace(ONE, text="a"), parts, parts, replace(parts, completed="日"),
        parts, replace(ONE, text="�", completed="🙂"), replace(ONE, text="b"),
    ]  # fmt: skip
    page = elements(replace(WHOLE, positions=tuple(positions))._repr_html_())
    spans = [each for each in page if each.tag == "span"]
    assert tuple(span.text for span in spans) == texts
    assert spans[1].get("style") == (
        "background: rgba(40, 120, 220, 0.50); border-bottom: 1px solid currentColor"
    )
    assert (spans[1].get("title") or "").count("log P -0.50") == 3
    cut = elements(replace(WHOLE, positions=(positions[0], parts))._repr_html_())
    assert [each.text for each in cut if each.tag == "span"] == ["a", "�"]
