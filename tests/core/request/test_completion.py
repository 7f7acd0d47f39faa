"""What comes back says in one line what one would ask of it, and a notebook shows its cost."""

from __future__ import annotations

import math
from typing import Any

from support.html_pages import ParsedHtml

from marith import Chunk, Completion, Engine, Stats, TermStats, TokenLogprob, ToolCall, Usage
from marith.request.completion import Alternative, Choice

EVIL = '<script>alert("x & y")</script>\'<b title="'


def completed(text: str, seconds: float = 0.1234, calls: tuple[ToolCall, ...] = ()) -> Completion:
    stats = Stats(tokens=3, passes=3, calls=3, seconds=seconds)
    reason = "tool_calls" if calls else "stop"
    return Completion(text, [5, 6, 7], reason, Usage(2, 3), stats, calls=calls)


def test_a_completion_shows_its_text_its_end_and_its_cost() -> None:
    assert repr(completed("Hi\nyou")) == r"<Completion 'Hi\nyou': stop, 3 tokens, 0.123 s>"
    called = completed("", calls=(ToolCall("1", "clock", "{}"), ToolCall("2", "mail", "{}")))
    assert repr(called) == "<Completion '': calls clock, mail, tool_calls, 3 tokens, 0.123 s>"
    assert repr([completed("a")]) == "[<Completion 'a': stop, 3 tokens, 0.123 s>]"


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


def test_a_notebook_shows_the_text_its_end_and_its_cost() -> None:
    page = shown(costing("Hi\n  there", stop_string="."))
    assert "Hi\n  there" in page.texts
    assert "white-space: pre-wrap" in page.values("style")
    assert "stop before '.' · 0.25 s · 3 passes" in page.texts
    assert page.tags.count("table") == 1
    assert [page.texts[-4:], page.tags.count("td")] == [["11", "7", "2", "13"], 4]


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


def test_an_answer_of_an_engine_is_shown_token_by_token() -> None:
    with Engine.load("pocket") as engine:
        out = engine.generate("Say: café 😀", "0.5*M + 0.5*x", {"x": "Be <i>."}, seed=1, logprobs=2)
    page = shown(out)
    assert page.text.startswith(out.text)
    assert "i" not in page.tags
    assert len(page.values("title")) <= len(out.tokens)
