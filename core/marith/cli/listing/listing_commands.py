"""Commands that list: `marith models` and `marith recipes`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from dataclasses import asdict
from difflib import get_close_matches
from textwrap import indent
from typing import TYPE_CHECKING, Annotated

import typer

from marith.cli.shared import app, clear_errors
from marith.cli.terminal.colours import styled
from marith.errors import RequestError

if TYPE_CHECKING:
    from marith.cli.listing.stored_models import StoredModel

HEADINGS = ("model", "architecture", "files", "on disk", "float32", "bfloat16", "context")
NOTE = """
float32 and bfloat16: the memory of the weights; keys and values of texts come to it. A CPU
computes in float32 and a GPU in bfloat16, unless --dtype says otherwise. Context: in tokens."""


def completed_recipes(incomplete: str) -> list[str]:
    """The recipes whose names begin so, for completion by the shell."""
    from marith.recipes import RECIPES

    return [name for name in RECIPES if name.startswith(incomplete)]


@app.command()
def models(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="A directory or hub id; else all that are here."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all there is as JSON.")] = False,
) -> None:
    """List the models on this machine: in the package, and in the hub's cache. Loads none."""
    with clear_errors(loads=False):
        from marith.cli.listing.stored_models import all_models, named

        listed = [named(name) for name in names] if names else all_models()
        if as_json:
            typer.echo(json.dumps([asdict(model) for model in listed], indent=2))
            return
        _print_table([HEADINGS, *map(_row, listed)])
        typer.echo(NOTE)


@app.command()
def recipes(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            autocompletion=completed_recipes,
            help="A recipe; else all.",
        ),
    ] = None,
) -> None:
    """List the methods that a formula can call by name, each with its equation and its paper."""
    with clear_errors(loads=False):
        from marith.recipes import RECIPES

        for name in names or ():
            if name not in RECIPES:
                near = get_close_matches(name, RECIPES, n=1)
                hint = f"did you mean {near[0]!r}?" if near else "`marith recipes` lists all"
                raise RequestError(f"there is no recipe {name!r}; {hint}")
        texts = [_described(name) for name in names or RECIPES]
        typer.echo("\n\n".join(texts))


def _described(name: str) -> str:
    """A recipe as one calls it, and what its docstring says."""
    from marith.recipes import RECIPES

    parameters = inspect.signature(RECIPES[name]).parameters.values()
    plain = ", ".join(str(each.replace(annotation=inspect.Parameter.empty)) for each in parameters)
    call = styled(f"{name}({plain})", bold=True)
    return f"{call}\n{indent(inspect.getdoc(RECIPES[name]) or '', '    ')}"


def _row(model: StoredModel) -> tuple[str, ...]:
    return (
        model.name,
        model.architecture or "-",
        model.place if model.complete else f"{model.place}, incomplete",
        amount(model.size),
        amount(model.memory(4)),
        amount(model.memory(2)),
        "-" if model.context is None else str(model.context),
    )


def amount(size: int | None) -> str:
    """A number of bytes in the unit that suits it; "-" where it is not known."""
    if size is None:
        return "-"
    number, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    while number >= 999.5 and len(units) > 1:
        number /= 1000
        units.pop(0)
    return f"{number:.0f} {units[0]}" if number >= 10 else f"{number:.2g} {units[0]}"


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Columns as wide as their longest cell; numbers stand to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for place, row in enumerate(rows):
        cells = [
            cell.ljust(width) if i < 3 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        typer.echo(styled("  ".join(cells), bold=True) if place == 0 else "  ".join(cells))
