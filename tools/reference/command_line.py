"""The page of the command line: typer's own documentation of each command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from typer.cli import get_docs_for_click

from marith.cli import app

NAME = "marith"


def command_page() -> list[str]:
    """Every command with its usage, arguments and options, as typer documents it."""
    text = "Every command prints its part of this page: `marith COMMAND --help`."
    return [text, *_commands(typer.main.get_command(app), NAME, 1)]


def _commands(command: Any, name: str, level: int) -> Iterator[str]:
    if not isinstance(command, typer.core.TyperGroup):
        context = typer.Context(command, info_name=name)
        text = get_docs_for_click(obj=command, ctx=context, name=name, indent=level)
        yield text.replace("```console\n$ ", "```console\n").strip()
        return
    yield f"{'#' * (level + 1)} `{name}`"
    yield command.help or ""
    parts = {f"{name} {each}": part for each, part in command.commands.items()}
    yield "\n".join(f"- {_link(full)}: {_sentence(part)}" for full, part in parts.items())
    for full, part in parts.items():
        yield from _commands(part, full, level + 1)


def _link(name: str) -> str:
    return f"[`{name}`](#{name.replace(' ', '-')})"


def _sentence(command: Any) -> str:
    """The first paragraph of a command's help, on one line."""
    return " ".join((command.help or "").partition("\n\n")[0].split())
