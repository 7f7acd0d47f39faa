"""An inspection as HTML for notebooks: the text with its pushes, and a table of positions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from marith.inspection.inspected_position import (
    InspectedPart,
    InspectedPosition,
    TokenRun,
    flipped_text,
    likely_text,
    part_text,
    quoted,
    runs_of,
    signed,
)
from marith.request.visible_text import harmless

LIKELIER, LESS_LIKELY = "40, 120, 220", "230, 120, 20"  # blue and orange: red, green, blue
STRONGEST = 3.0  # nats of push that have the darkest tint, which text of either colour is read on
DARKEST = 0.5
SURPRISES = (1.0, 2.0, 4.0)  # nats: the underline is one pixel thicker from each of them on
MOST_ROWS = 200
_TEXT_STYLE = "white-space: pre-wrap; line-height: 1.7"
_CELL = "text-align: left; padding: 0 .8em 0 0"


def inspection_html(positions: Sequence[InspectedPosition], parts: Sequence[InspectedPart]) -> str:
    """Return an inspection as HTML without scripts; all that was generated, or given, is escaped.

    A token is blue where the formula made it likelier than the bare model, and orange where less
    likely; the thicker its underline, the more surprising it is; a bold one is flipped. The table
    has the positions that are flipped, or all where there is none.
    """
    strip = "".join(map(_token, runs_of(positions)))
    listed = [position for position in positions if position.flipped] or positions
    return "".join(
        [
            f'<div style="{_TEXT_STYLE}">{strip}</div>',
            f"<div><small>{escape(_summary(positions))}</small></div>",
            _table(listed[:MOST_ROWS], parts) if listed else "",
            _left_out(len(listed)),
        ]
    )


def _token(run: TokenRun) -> str:
    styles = []
    if tint := _tint(run.push):
        styles.append(f"background: rgba({tint})")
    surprise = float("inf") if run.logprob is None else -run.logprob
    if thick := sum(surprise >= least for least in SURPRISES):
        styles.append(f"border-bottom: {thick}px solid currentColor")
    if run.flipped:
        styles.append("font-weight: bold")
    style, title = escape("; ".join(styles)), escape("\n".join(map(_title, run.positions)))
    return f'<span style="{style}" title="{title}">{escape(harmless(run.text))}</span>'


def _tint(push: float | None) -> str:
    """The background of a push: red, green, blue, and how much of it; "" for hardly any."""
    if push is None or abs(push) < 0.05:
        return ""
    strength = DARKEST * min(1.0, abs(push) / STRONGEST)
    return f"{LIKELIER if push > 0 else LESS_LIKELY}, {strength:.2f}"


def _title(position: InspectedPosition) -> str:
    """What is shown of a token where the pointer rests on it."""
    likely = ", ".join(map(likely_text, position.top))
    return "\n".join(
        [
            f"{quoted(position.text)} log P {signed(position.logprob)}, by M "
            f"{signed(position.bare_logprob)}: {signed(position.push)} nats",
            f"likeliest: {likely}",
            f"likeliest to M: {likely_text(position.bare_likeliest)}",
        ]
    )


def _summary(positions: Sequence[InspectedPosition]) -> str:
    return (
        f"{flipped_text(positions)} (bold) · blue: made likelier, "
        "orange: less likely, the thicker the line the more surprising · log-probabilities in nats"
    )


def _table(positions: Iterable[InspectedPosition], parts: Iterable[InspectedPart]) -> str:
    heads = ["at", "token", "log P", "push", "likeliest to M", "against", "log-odds"]
    heads += [*map(part_text, parts), "likeliest"]
    rows = (
        [
            str(position.place),
            quoted(position.text),
            signed(position.logprob),
            signed(position.push),
            likely_text(position.bare_likeliest),
            quoted(position.reference.text),
            signed(position.log_odds),
            *(signed(contribution.value) for contribution in position.contributions),
            ", ".join(map(likely_text, position.top)),
        ]
        for position in positions
    )
    head = _row("th", heads)
    return (
        f"<table><thead>{head}</thead><tbody>{''.join(_row('td', r) for r in rows)}</tbody></table>"
    )


def _row(tag: str, cells: Sequence[str]) -> str:
    opening = f'<{tag} style="{_CELL}">'
    return f"<tr>{''.join(f'{opening}{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _left_out(count: int) -> str:
    if count <= MOST_ROWS:
        return ""
    return f"<div><small>{count - MOST_ROWS} more positions are not listed</small></div>"
