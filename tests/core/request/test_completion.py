"""What comes back says in one line what one would ask of it, and a notebook shows its cost."""

from __future__ import annotations

import math
from typing import Any

from support.html_pages import ParsedHtml

from marith import Chunk, Completion, Stats, TermStats, TokenLogprob, ToolCall, Usage
from marith.request.completion import Alternative, Choice

EVIL = '<script>alert("x & y")</script>\'<b title="'


def completed(text: str, seconds: float = 0.1234, calls: tuple[ToolCall, ...] = ()) -> Completion:
    stats = Stats(tokens=3, passes=3, calls=3, seconds=seconds)
    reason = "tool_calls" if calls else "stop"
    return Completion(text, [5, 6, 7], reason, Usage(2, 3), stats, calls=calls)


def test_what_is_printed_is_the_text() -> None:
    assert str(completed("Hi\nyou")) == "Hi\nyou"
    assert f"{Chunk('Hi', (4,))}" == "Hi"
    assert str(Choice.of({"no": -3.0, "yes": -1.0})) == "yes"


def costing(text: str = "Hi", terms: dict[str, TermStats] | None = None, **rest: Any) -> Completion:
    stats = Stats(tokens=2, passes=3, calls=3, seconds=0.25, terms=terms or {})
    return Completion(text, [5, 6], "stop", Usage(11, 2, 7), stats, **rest)


def token(data: bytes, chance: float, terms: dict[str, float] | None = None) -> TokenLogprob:
    text, logprob = data.decode(errors="replace"), math.log(chance)
    top = (Alternative(0, text, data, logprob), Alternative(1, EVIL, EVIL.encode(), -3.0))
    return TokenLogprob(0, text, data, logprob, top, terms or {})


def shown(out: Completion) -> ParsedHtml:
    return ParsedHtml(out._repr_html_())


def test_nothing_that_was_generated_or_given_is_markup() -> None:
    out = costing(
        EVIL, {EVIL: TermStats(1, 1, 1), "M": TermStats(1, 1, 1)},
        reasoning=EVIL, stop_string=EVIL, calls=(ToolCall("1", EVIL, EVIL),),
    )  # fmt: skip
    tinted = costing(EVIL, logprobs=(token(EVIL.encode(), 0.5, {EVIL: -1.0}),))
    for page in (shown(out), shown(tinted)):
        assert not {"script", "b"} & set(page.tags)
        assert EVIL in page.texts
    assert out._repr_html_().count("<script") == 0
    [title] = shown(tinted).values("title")
    assert f"{EVIL}: 36.8 %" in title
    assert shown(out).text.count(EVIL) >= 4


def test_tokens_that_have_one_letter_together_are_shown_together() -> None:
    smile = "😀".encode()
    tokens = [token(b"a", 0.9), token(smile[:2], 0.5), token(smile[2:], 0.9), token(smile[:1], 0.9)]
    page = shown(costing("a😀�", logprobs=tuple(tokens)))
    assert page.texts[:3] == ["a", "😀", "�"]
    assert len(page.values("title")[1].splitlines()) == 4
    broken = shown(costing("�a", logprobs=(token(b"\xffa", 0.5),)))
    assert broken.texts[0] == "�a"
