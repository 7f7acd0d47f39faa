"""Write an inspection as a table of texts, for terminals and notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from marith.inspection.inspected_position import (
    RANKED,
    InspectedPart,
    InspectedPosition,
    LikelyToken,
)
from marith.request.visible_text import escape_control_chars

_BREAKS = str.maketrans({"\n": "␊", "\t": "␉"})


def on_one_line(text: str) -> str:
    """Return a text with line breaks and control characters made visible."""
    return escape_control_chars(text).translate(_BREAKS)


def quoted(text: str) -> str:
    """Return a token's text in quotation marks, so that its spaces are visible."""
    return f'"{on_one_line(text)}"'


def signed(number: float | None) -> str:
    """Return a number of nats with its sign, or a dash for an infinite number."""
    return "-" if number is None else f"{number:+.2f}"


def likely_text(likely: LikelyToken) -> str:
    """Return a token and its log-probability."""
    return f"{quoted(likely.text)} {signed(likely.logprob)}"


def table_of(
    positions: Iterable[InspectedPosition], parts: Sequence[InspectedPart]
) -> list[tuple[str, ...]]:
    """Return the header of a table, then a row for each position."""
    heads = ("at", "token", "log P", "rank", "push", "M likeliest", "against", "log-odds")
    rows = [
        (
            str(position.place),
            quoted(position.text),
            signed(position.logprob),
            f">{RANKED}" if position.rank is None else str(position.rank),
            signed(position.push),
            likely_text(position.bare_likeliest),
            quoted(position.reference.text),
            signed(position.log_odds),
            *(signed(contribution.value) for contribution in position.contributions),
            ", ".join(map(likely_text, position.top)),
        )
        for position in positions
    ]
    return [(*heads, *map(_head, parts), "likeliest"), *rows]


def _head(part: InspectedPart) -> str:
    text = on_one_line(part.text)
    return text if part.kind == "exact" else f"without {text}"
