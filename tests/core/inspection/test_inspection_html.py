"""A notebook shows an inspection: no markup but its own, and whole characters."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from support.html_pages import ParsedHtml
from support.inspected import inspection

from marith.inspection.inspected_position import LikelyToken

HOSTILE = [
    '<script>alert("x & y")</script>\'<b title="', "</span><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)', "\x1b[31m", "left\u202eright", "\u2028", "\x00", "&lt;b&gt;",
]  # fmt: skip
WHOLE = inspection()
(ONE,) = WHOLE.positions


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_was_generated_or_given_is_markup(text: str) -> None:
    likely = LikelyToken(1, text, -1.0)
    position = replace(ONE, text=text, top=(likely,), bare_likeliest=likely, reference=likely)
    parts = tuple(replace(part, text=text) for part in WHOLE.parts)
    html = replace(WHOLE, positions=(position,), parts=parts, formula=text)._repr_html_()
    page = ParsedHtml(html)
    assert set(page.tags) <= {"div", "span", "small", "table", "thead", "tbody", "tr", "th", "td"}
    assert set(re.findall(r"<\w+ (\w+)=", html)) <= {"style", "title"}
    assert not {"\x1b", "\u202e", "\u2028", "\x00"}.intersection(html)
    assert ParsedHtml(WHOLE._repr_html_()).tags == page.tags


def test_the_tokens_of_one_character_are_shown_together() -> None:
    parts = replace(ONE, text="�", completed="", flipped=False, logprob=-0.5)
    texts = ("a", "日", "🙂", "b")
    positions = [
        replace(ONE, text="a"), parts, parts, replace(parts, completed="日"),
        parts, replace(ONE, text="�", completed="🙂"), replace(ONE, text="b"),
    ]  # fmt: skip
    page = ParsedHtml(replace(WHOLE, positions=tuple(positions))._repr_html_())
    assert tuple(page.texts[:4]) == texts
    whole, *_ = [style for style in page.values("style") if "background" in style][1:]
    assert whole == "background: rgba(40, 120, 220, 0.50); border-bottom: 1px solid currentColor"
    assert page.values("title")[1].count("log P -0.50") == 3
    cut = ParsedHtml(replace(WHOLE, positions=(positions[0], parts))._repr_html_())
    assert cut.texts[1] == "�"
