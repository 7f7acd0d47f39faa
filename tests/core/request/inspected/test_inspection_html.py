"""A notebook shows an inspection: no markup but its own, readable on light and dark pages."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from support.html_pages import ParsedHtml
from support.inspected import inspection

from marith.request.inspected import inspection_html
from marith.request.inspected.inspected_position import InspectedPosition, LikelyToken

HOSTILE = [
    '<script>alert("x & y")</script>\'<b title="', "</span><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)', "\x1b[31m", "left\u202eright", "\u2028", "\x00", "&lt;b&gt;",
]  # fmt: skip
WHOLE = inspection()
(ONE,) = WHOLE.positions


def styles(**changes: object) -> str:
    position = replace(ONE, **changes)  # type: ignore[arg-type]
    page = ParsedHtml(replace(WHOLE, positions=(position,))._repr_html_())
    return page.values("style")[1]


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


def test_colour_line_and_weight_say_what_happened() -> None:
    calm = {"logprob": -0.5, "bare_logprob": -0.5, "flipped": False}
    assert styles(**calm) == ""
    assert styles(**calm | {"bare_logprob": -3.5}) == "background: rgba(40, 120, 220, 0.50)"
    assert styles(**calm | {"bare_logprob": 1.0}) == "background: rgba(230, 120, 20, 0.25)"
    assert styles(**calm | {"flipped": True}) == "font-weight: bold"
    surprising = styles(logprob=-2.5, bare_logprob=-2.5, flipped=False)
    assert surprising == "border-bottom: 2px solid currentColor"
    assert styles(logprob=None, flipped=False) == "border-bottom: 3px solid currentColor"


def test_the_table_lists_what_flipped_and_says_what_it_leaves_out() -> None:
    def rows(*positions: InspectedPosition) -> tuple[int, str]:
        page = ParsedHtml(replace(WHOLE, positions=positions)._repr_html_())
        return page.tags.count("tr") - 1, " ".join(page.texts)

    calm = replace(ONE, flipped=False)
    assert rows(ONE, calm, calm)[0] == 1
    assert rows(calm, calm)[0] == 2
    assert ParsedHtml(replace(WHOLE, positions=())._repr_html_()).tags.count("table") == 0
    count, text = rows(*[ONE] * (inspection_html.MOST_ROWS + 7))
    assert count == inspection_html.MOST_ROWS
    assert "7 more positions are not listed" in text


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
