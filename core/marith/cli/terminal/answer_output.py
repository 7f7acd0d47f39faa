"""Prints answers: as their text comes, or as JSON; an incomplete answer is never like a whole."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from marith.cli.terminal.log_lines import line_of_answer
from marith.cli.terminal.shown_text import for_terminal
from marith.errors import MarithError

if TYPE_CHECKING:
    from marith.engine.ticket import Ticket
    from marith.request.completion import Completion

BETWEEN = "---"  # a line between two answers
CUT_OFF = " [cut off]"  # on a terminal, after the text of an answer that was not finished


def print_answers(tickets: Sequence[Ticket], as_json: bool, has_timeout: bool) -> None:
    """Print the answers in their order.

    With `has_timeout`, an answer is printed when it is finished, except on a terminal, so that a
    file or a program never receives a part of one.
    """
    if as_json:
        completions = [as_data(ticket.result()) for ticket in tickets]
        data = completions[0] if len(completions) == 1 else completions
        typer.echo(json.dumps(data, ensure_ascii=False, indent=2))
        return
    for i, ticket in enumerate(tickets):
        if i:
            typer.echo(BETWEEN)
        if has_timeout and not _is_terminal():
            typer.echo(for_terminal(ticket.result().text))
        else:
            _stream(ticket)


def as_data(completion: Completion) -> dict[str, Any]:
    """All that a completion contains, with the figures that follow from its counts."""
    stats = completion.stats
    data = asdict(completion)
    data["usage"]["total_tokens"] = completion.usage.total_tokens
    data["stats"]["passes_per_token"] = stats.passes_per_token
    data["stats"]["calls_per_token"] = stats.calls_per_token
    data["stats"]["acceptance"] = stats.acceptance
    return data


def _stream(ticket: Ticket) -> None:
    with line_of_answer():
        try:
            for chunk in ticket:
                typer.echo(for_terminal(chunk.text), nl=False)
                sys.stdout.flush()
        except MarithError:
            typer.echo(CUT_OFF)
            raise
        typer.echo()


def _is_terminal() -> bool:
    return sys.stdout.isatty()
