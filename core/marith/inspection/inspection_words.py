"""Write an inspection as a table of texts, for terminals and notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from marith.inspection.inspected_position import (
    RANKED,
    InspectedPart,
    InspectedPosition,
    InspectedTerm,
    LikelyToken,
    TermView,
)
from marith.request.visible_text import escape_control_chars

MOVED_MOST = "moved most"
# A table lists this number of tokens for each direction in which vectors push. The page lists
# three, because its card has a line for each term, and a line of the table has all terms.
MOVED = 2
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
    positions: Iterable[InspectedPosition],
    parts: Sequence[InspectedPart],
    terms: Sequence[InspectedTerm],
) -> list[tuple[str, ...]]:
    """Return the header of a table, then a row for each position."""
    listed = [*positions]
    heads = ("at", "token", "log P", "rank", "push", "M likeliest", "against", "log-odds")
    pushed = [number for number in range(len(terms)) if listed and listed[0].terms[number].vectors]
    of_vectors = [
        head for number in pushed for head in (f"vectors of {_name(terms[number])}", MOVED_MOST)
    ]
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
            *(cell for number in pushed for cell in _pushes(position.terms[number])),
            ", ".join(map(likely_text, position.top)),
        )
        for position in listed
    ]
    return [(*heads, *map(_head, parts), *of_vectors, "likeliest"), *rows]


def _pushes(view: TermView) -> tuple[str, str]:
    """Return the push of a term's vectors, and the tokens that they raise and lower most."""
    assert view.vectors is not None, "a term has vectors at each position or at none"
    moved = (*view.vectors.raised[:MOVED], *view.vectors.lowered[:MOVED])
    listed = ", ".join(f"{quoted(token.text)} {signed(token.push)}" for token in moved)
    return signed(view.vectors.push), listed


def _name(term: InspectedTerm) -> str:
    return on_one_line(term.names[0] if term.names else term.text)


def _head(part: InspectedPart) -> str:
    text = on_one_line(part.text)
    return text if part.kind == "exact" else f"without {text}"
