"""Write the page of the command line from typer's own documentation of each command."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

import typer
from typer.cli import get_docs_for_click

from marith.cli import app
from marith.cli.help_pages import EXAMPLES

NAME = "marith"
INTRODUCTION = """`marith COMMAND --help`, or `-h`, prints the section of a command with all of
its options. `marith --version` prints the version, `marith -v COMMAND` logs to standard error, and
`marith --install-completion` lets the shell complete commands and options. `python -m marith` runs
the same program."""
SHARED = "Options of several commands"
# An option of at least this many commands is described only once.
MANY = 5
_OPTION = re.compile(r"^\* `((?:-\w, )?(--[\w-]+)[^`]*)`.*\n?", re.MULTILINE)
_OPTIONS = "**Options**:\n\n"
# The introduction of the page describes this option.
_HELP = re.compile(r"^\* `-h, --help`.*\n?", re.MULTILINE)


def command_page() -> list[str]:
    """Return every command with its arguments, options and an example.

    An option of at least `MANY` commands is described once, in a section of its own.
    """
    parts = [*_commands(typer.main.get_command(app), NAME, 1)]
    counts = Counter(option[0] for part in parts for option in _OPTION.finditer(part))
    shared = [option for option, count in counts.items() if count >= MANY]
    pages = [_with_names(part, shared) for part in parts]
    return [INTRODUCTION, *pages, f"## {SHARED}", "".join(shared).strip()]


def _with_names(part: str, shared: Collection[str]) -> str:
    """Return the section of a command with the names of shared options only."""
    names = [f"`{found[2]}`" for found in _OPTION.finditer(part) if found[0] in shared]
    if not names:
        return part
    own = _OPTION.sub(lambda found: "" if found[0] in shared else found[0], part).strip()
    own = own.removesuffix(_OPTIONS.strip()).strip()
    return f"{own}\n\nAlso [options of several commands](#{_anchor(SHARED)}): {', '.join(names)}."


def _commands(command: Any, name: str, level: int) -> Iterator[str]:
    if not isinstance(command, typer.core.TyperGroup):
        context = typer.Context(command, info_name=name, help_option_names=["-h", "--help"])
        # The epilog is the example, which follows in a block of its own.
        command.epilog = None
        text = get_docs_for_click(obj=command, ctx=context, name=name, indent=level)
        yield _HELP.sub("", text.replace("```console\n$ ", "```console\n")).strip() + "\n"
        yield f"**Example**:\n\n```console\n{EXAMPLES[name.removeprefix(f'{NAME} ')]}\n```"
        return
    yield f"{'#' * (level + 1)} `{name}`"
    yield command.help or ""
    for part in command.commands:
        yield from _commands(command.commands[part], f"{name} {part}", level + 1)


def _anchor(heading: str) -> str:
    return heading.lower().replace(" ", "-")
