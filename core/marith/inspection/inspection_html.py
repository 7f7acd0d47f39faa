"""An inspection as HTML for notebooks: the text with its pushes, and a table of positions."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from marith.inspection.inspected_position import InspectedPosition, TokenRun
from marith.inspection.inspection_words import likely_text, quoted, signed
from marith.request.visible_text import escape_control_chars

# Blue and orange, as red, green and blue.
LIKELIER, LESS_LIKELY = "40, 120, 220", "230, 120, 20"
# A push of at least this many nats has the darkest tint, on which black and white text stay
# readable.
STRONGEST = 3.0
DARKEST = 0.5
# At each of these surprises, in nats, the underline becomes one pixel thicker.
SURPRISES = (1.0, 2.0, 4.0)
MOST_ROWS = 200
_TEXT_STYLE = "white-space: pre-wrap; line-height: 1.7"
_LEGEND = (
    "blue: made likelier, orange: less likely, the thicker the line the more surprising · "
    "log-probabilities in nats"
)
_CELL = "text-align: left; padding: 0 .8em 0 0"


def inspection_html(
    runs: Sequence[TokenRun], summary: str, table: Sequence[tuple[str, ...]]
) -> str:
    """Return an inspection as HTML without scripts. All texts are escaped.

    A token is blue if the formula made it likelier than the bare model, and orange if it made the
    token less likely. A thicker underline marks a more surprising token. Flipped tokens are bold.
    """
    strip = "".join(map(_token, runs))
    head, *rows = table
    body = "".join(_row("td", row) for row in rows[:MOST_ROWS])
    return (
        f'<div style="{_TEXT_STYLE}">{strip}</div>'
        f"<div><small>{escape(f'{summary} (bold) · {_LEGEND}')}</small></div>"
        f"<table><thead>{_row('th', head)}</thead><tbody>{body}</tbody></table>"
        + _left_out(len(rows))
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
    return f'<span style="{style}" title="{title}">{escape(escape_control_chars(run.text))}</span>'


def _tint(push: float | None) -> str:
    """Return the background of a push as red, green, blue and opacity; "" for a tiny push."""
    if push is None or abs(push) < 0.05:
        return ""
    strength = DARKEST * min(1.0, abs(push) / STRONGEST)
    return f"{LIKELIER if push > 0 else LESS_LIKELY}, {strength:.2f}"


def _title(position: InspectedPosition) -> str:
    """Return the text of a token's tooltip."""
    likely = ", ".join(map(likely_text, position.top))
    return "\n".join(
        [
            f"{quoted(position.text)} log P {signed(position.logprob)}, by M "
            f"{signed(position.bare_logprob)}: {signed(position.push)} nats",
            f"likeliest: {likely}",
            f"likeliest to M: {likely_text(position.bare_likeliest)}",
        ]
    )


def _row(tag: str, cells: Sequence[str]) -> str:
    opening = f'<{tag} style="{_CELL}">'
    return f"<tr>{''.join(f'{opening}{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _left_out(count: int) -> str:
    if count <= MOST_ROWS:
        return ""
    return f"<div><small>{count - MOST_ROWS} more positions are not listed</small></div>"
