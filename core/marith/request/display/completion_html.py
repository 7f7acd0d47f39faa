"""A completion as HTML for notebooks: its text, why it ended, and what it cost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from marith.request.completion import Alternative, Completion, TokenLogprob

_LISTED = 5  # alternatives of a token
_TINT = "42, 111, 151, {:.2f}"  # red, green, blue, and how much of it
_DARKEST = 0.6
_TEXT_STYLE = "white-space: pre-wrap"


def completion_html(out: Completion) -> str:
    """The completion as HTML; all that was generated, or given, is escaped.

    With log-probabilities, the background of a token is the darker the less probable it was, and
    its title says by how much, by which term, and what else was likely. Tokens of reasoning, of
    calls and of a stop string are not part of the text, and are not shown in it.
    """
    return "".join(
        [
            _reasoning(out.reasoning),
            _text(out),
            *(_paragraph(f"{call.name}({call.arguments})", "code") for call in out.calls),
            _paragraph(_summary(out), "small"),
            _usage(out),
            _terms(out),
        ]
    )


def _text(out: Completion) -> str:
    body = escape(out.text) if out.logprobs is None else "".join(_tinted(out, out.logprobs))
    return f'<div style="{_TEXT_STYLE}">{body}</div>'


def _tinted(out: Completion, tokens: Sequence[TokenLogprob]) -> Iterator[str]:
    """The text in spans of its tokens; without any where calls stand between parts of it."""
    groups = list(_grouped(tokens))
    whole = "".join(text for text, _ in groups)
    start = whole.find(out.text, max(0, whole.find(out.reasoning)) + len(out.reasoning))
    if start < 0:
        yield escape(out.text)
        return
    end, place = start + len(out.text), 0
    for text, group in groups:
        inside = text[max(0, start - place) : max(0, end - place)]
        place += len(text)
        if not inside:
            continue
        least = min(math.exp(each.logprob) for each in group)
        tint = _TINT.format(_DARKEST * (1 - least))
        title = escape("\n".join(map(_title, group)))
        yield f'<span style="background: rgba({tint})" title="{title}">{escape(inside)}</span>'


def _grouped(tokens: Sequence[TokenLogprob]) -> Iterator[tuple[str, list[TokenLogprob]]]:
    """The text of each token, or of several that have one letter together."""
    group: list[TokenLogprob] = []
    for place, token in enumerate(tokens):
        group.append(token)
        text = _decoded(group)
        if text is None and place < len(tokens) - 1:
            continue
        yield "�" if text is None else text, group
        group = []


def _decoded(group: Sequence[TokenLogprob]) -> str | None:
    """The text of some tokens; None where it ends within a letter."""
    data = b"".join(token.data for token in group)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        return None if error.end == len(data) else data.decode(errors="replace")


def _title(token: TokenLogprob) -> str:
    by_term = (f"{term}: {_percent(logprob)}" for term, logprob in token.terms.items())
    likely = ", ".join(map(_likely, token.top[:_LISTED]))
    return "\n".join([_likely(token), *by_term, *[f"likeliest: {likely}"] * bool(likely)])


def _likely(token: Alternative) -> str:
    return f"{token.text!r} {_percent(token.logprob)}"


def _percent(logprob: float) -> str:
    return f"{100 * math.exp(logprob):.3g} %"


def _summary(out: Completion) -> str:
    """Why the text ended, and how it was generated."""
    stats = out.stats
    stop = "" if out.stop_string is None else f" before {out.stop_string!r}"
    parts = [f"{out.finish_reason}{stop}", f"{stats.seconds:.3g} s", f"{stats.passes} passes"]
    if stats.acceptance is not None:
        parts.append(f"{stats.accepted} of {stats.drafted} drafted tokens accepted")
    if out.logprobs is not None:
        parts.append("the darker a token, the less probable it was")
    return " · ".join(parts)


def _usage(out: Completion) -> str:
    usage = out.usage
    names = ["prompt tokens", "of them cached", "completion tokens", "total"]
    counts = [usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens, usage.total_tokens]
    if usage.reasoning_tokens:
        names.insert(3, "of them reasoning")
        counts.insert(3, usage.reasoning_tokens)
    return _table(names, [counts])


def _terms(out: Completion) -> str:
    """The cost of each term, where the formula has several."""
    if len(out.stats.terms) < 2:
        return ""
    costs = out.stats.terms.items()
    rows = [(term, cost.prompt_tokens, cost.cached_tokens, cost.calls) for term, cost in costs]
    return _table(["term", "prompt tokens", "of them cached", "calls"], rows)


def _reasoning(text: str) -> str:
    if not text:
        return ""
    body = f'<div style="{_TEXT_STYLE}">{escape(text)}</div>'
    return f"<details><summary>reasoning</summary>{body}</details>"


def _paragraph(text: str, tag: str) -> str:
    return f"<div><{tag}>{escape(text)}</{tag}></div>"


def _table(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
