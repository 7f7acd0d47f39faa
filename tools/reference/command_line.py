"""Write the page of the command line from typer's own documentation of each command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from typer.cli import get_docs_for_click

from marith.cli import app
from marith.cli.help_pages import EXAMPLES

NAME = "marith"
INTRODUCTION = """Every command prints its part of this page: `marith COMMAND --help`, or `-h`.
`marith --version` prints the version, `marith -v COMMAND` logs to standard error, and
`marith --install-completion` lets the shell complete commands and options. `python -m marith` is
the same program."""


def command_page() -> list[str]:
    """Return the page: every command with its usage, arguments and options."""
    return [INTRODUCTION, *_commands(typer.main.get_command(app), NAME, 1)]


def _commands(command: Any, name: str, level: int) -> Iterator[str]:
    if not isinstance(command, typer.core.TyperGroup):
        context = typer.Context(command, info_name=name, help_option_names=["-h", "--help"])
        command.epilog = None  # the example has its own block below
        text = get_docs_for_click(obj=command, ctx=context, name=name, indent=level)
        yield text.replace("```console\n$ ", "```console\n").strip()
        yield f"**Example**:\n\n```console\n{EXAMPLES[name.removeprefix(f'{NAME} ')]}\n```"
        return
    yield f"{'#' * (level + 1)} `{name}`"
    yield command.help or ""
    parts = {f"{name} {each}": part for each, part in command.commands.items()}
    yield "\n".join(f"- {_link(full)}: {part.get_short_help_str()}" for full, part in parts.items())
    for full, part in parts.items():
        yield from _commands(part, full, level + 1)


def _link(name: str) -> str:
    return f"[`{name}`](#{name.replace(' ', '-')})"
