"""Prints an inspection: the text with its pushes, and a table of positions.

Blue is likelier than by the bare model, orange is less likely, an underlined token is surprising,
and a bold one is flipped: the formula's likeliest, and not the bare model's. Without colours a
flipped token stands in brackets with its push. Text of a model is shown, and never obeyed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import typer
from rich.table import Table
from rich.text import Text

from marith.cli.terminal.colours import has_colours
from marith.cli.terminal.shown_text import harmless
from marith.request.inspected.inspected_position import (
    InspectedPosition,
    TokenRun,
    flipped_text,
    likely_text,
    part_text,
    quoted,
    runs_of,
    signed,
)
from marith.request.inspected.inspection import Inspection
from marith.showing import say, terminal

BLUES, ORANGES = (117, 75, 33), (222, 215, 208)  # of 256 colours, the strongest push last
STEPS = (0.1, 0.5, 2.0)  # nats of push from which each of them is used
SURPRISING = 2.0  # nats: less likely than 14 %
_LETTERS = 28  # of a part's text in the head of a table


def print_inspection(inspection: Inspection, every: bool) -> None:
    """Print the text and its table, of flipped positions alone or of `every` one."""
    console = terminal()
    typer.echo(strip_of(inspection))
    positions = inspection.positions if every else inspection.flipped
    count = len(inspection.positions)
    typer.echo()
    say(console, [f"{flipped_text(inspection.positions)}."])
    if lost := inspection.implausible:
        told = f"No term finds {len(lost)} of {count} tokens plausible"
        say(console, [f"{told}; the first is token {lost[0].place}."])
    if positions:
        console.print(_table(inspection, positions))
        say(console, _legend(inspection))


def strip_of(inspection: Inspection) -> str:
    """The text, each token coloured by its push; without colours what flipped is in brackets."""
    coloured = has_colours(sys.stdout)
    return "".join(_token(run, coloured) for run in runs_of(inspection.positions))


def _token(run: TokenRun, coloured: bool) -> str:
    text = harmless(run.text)
    if coloured:
        surprising = run.logprob is None or run.logprob < -SURPRISING
        colour = _colour(run.push)
        return typer.style(text, fg=colour, underline=surprising or None, bold=run.flipped or None)
    return f"[{text} {signed(run.push)}]" if run.flipped else text


def _colour(push: float | None) -> int | None:
    """The colour of a push; None for one that is hardly any."""
    if push is None:
        return None
    strength = sum(abs(push) >= step for step in STEPS)
    return (BLUES if push > 0 else ORANGES)[strength - 1] if strength else None


def _table(inspection: Inspection, positions: Iterable[InspectedPosition]) -> Table:
    """A row for each position, with a column for each part of the formula."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("at", "token", "log P", "rank", "push", "M likeliest", "against", "log-odds"):
        numeric = name in ("at", "log P", "rank", "push", "log-odds")
        table.add_column(name, justify="right" if numeric else "left", no_wrap=numeric)
    for part in inspection.parts:
        table.add_column(Text(part_text(part, _LETTERS)), justify="right")
    table.add_column("likeliest")
    for position in positions:
        table.add_row(
            str(position.place),
            Text(quoted(position.text)),
            signed(position.logprob),
            ">1000" if position.rank is None else str(position.rank),
            signed(position.push),
            Text(likely_text(position.bare_likeliest)),
            Text(quoted(position.reference.text)),
            signed(position.log_odds),
            *(signed(contribution.value) for contribution in position.contributions),
            Text(", ".join(map(likely_text, position.top))),
        )
    return table


def _legend(inspection: Inspection) -> list[str]:
    lines = [
        "Numbers are nats; push is log P - log P_M. What the parts of the formula add makes up the",
        "log-odds of the token against another one: M's choice, or the likeliest besides.",
    ]
    if any(part.kind == "leave_one_out" for part in inspection.parts):
        lines.append(
            "without x: how much smaller the log-odds would be with M in place of x; not added."
        )
    return lines
