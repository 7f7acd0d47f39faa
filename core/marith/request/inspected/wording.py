"""Tokens, numbers and parts of an inspection as people read them, on a terminal or a page."""

from __future__ import annotations

from collections.abc import Sequence

from marith.request.inspected.inspected_position import (
    InspectedPart,
    InspectedPosition,
    LikelyToken,
)
from marith.request.visible_text import harmless

_BREAKS = str.maketrans({"\n": "␊", "\t": "␉"})


def on_one_line(text: str) -> str:
    """A text with all that is no plain letter made visible."""
    return harmless(text).translate(_BREAKS)


def quoted(text: str) -> str:
    """A token's text, whose spaces are seen."""
    return f'"{on_one_line(text)}"'


def signed(number: float | None) -> str:
    """A number of nats with its sign; a dash for one that is infinite."""
    return "-" if number is None else f"{number:+.2f}"


def likely_text(likely: LikelyToken) -> str:
    """A token and its log-probability."""
    return f"{quoted(likely.text)} {signed(likely.logprob)}"


def flipped_text(positions: Sequence[InspectedPosition]) -> str:
    """Say at how many positions the formula changed which token is likeliest."""
    flipped = sum(position.flipped for position in positions)
    return (
        f"{flipped} of {len(positions)} tokens are the formula's likeliest and not the bare model's"
    )


def part_text(part: InspectedPart, most: int | None = None) -> str:
    """The head of a part's column, of at most so many letters."""
    text = on_one_line(part.text)
    if most is not None and len(text) > most:
        text = f"{text[: most - 1]}…"
    return text if part.kind == "exact" else f"without {text}"
