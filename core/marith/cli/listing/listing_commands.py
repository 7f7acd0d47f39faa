"""Commands that list: `marith models` and `marith recipes`."""

import inspect
import json
from collections.abc import Sequence
from dataclasses import asdict
from textwrap import indent
from typing import TYPE_CHECKING, Annotated

import typer

from marith.cli.own_modules import Imports
from marith.cli.shared import app, clear_errors
from marith.cli.terminal.colours import styled
from marith.errors import FormulaError, RequestError, suggestion

if TYPE_CHECKING:
    from marith.models import StoredModel

_LLAMA_CPP_LANES = 256  # texts that llama.cpp reads at once
OWN = "Methods that are not of marith"
HEADINGS = ("model", "architecture", "files", "on disk", "float32", "bfloat16", "context")
NOTE = """
float32 and bfloat16: the memory of the weights on a CPU, where a head that is tied to the words is
a copy; keys and values of texts come to it, and up to 0.3 GB for the words themselves. A GPU
computes in bfloat16, and so does a CPU that multiplies it where the model is stored in it; other
CPUs in float32, unless --dtype says otherwise. A GGUF file takes less. Context: in tokens."""


def completed_recipes(incomplete: str) -> list[str]:
    """The methods whose names begin so, for completion by the shell; none is imported."""
    from marith.recipes import RECIPES

    return [name for name in (*RECIPES, *_own_names()) if name.startswith(incomplete)]


@app.command()
def models(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="A directory, GGUF file or hub id; else all here."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all there is as JSON.")] = False,
) -> None:
    """List the models on this machine: in the package, and in the hub's cache. Loads none."""
    with clear_errors(loads=False):
        from marith.models import describe, local

        listed = [describe(name) for name in names] if names else local()
        if as_json:
            typer.echo(json.dumps([asdict(model) for model in listed], indent=2))
            return
        _print_table([HEADINGS, *map(_row, listed)])
        typer.echo(NOTE)
        for model in listed if names else ():
            typer.echo("\n".join(_takes(model)))


@app.command()
def recipes(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            autocompletion=completed_recipes,
            help="A recipe; else all.",
        ),
    ] = None,
    _imports: Imports = None,
) -> None:
    """List the methods that a formula can call by name, each with its equation and its paper.

    Those of installed packages, and of --import, stand last.
    """
    with clear_errors(loads=False):
        from marith.recipes import RECIPES

        own = _own_names()
        for name in names or ():
            if name not in RECIPES and name not in own:
                hint = suggestion(name, [*RECIPES, *own], "; `marith recipes` lists all")
                raise RequestError(f"there is no recipe {name!r}{hint}")
        typer.echo("\n\n".join(map(_described, names or RECIPES)))
        if own and not names:
            typer.echo(f"\n{styled(OWN, bold=True)}\n")
            typer.echo("\n\n".join(map(_described, own)))


def _own_names() -> list[str]:
    """What formulas can call besides what is marith's: what was defined, and packages offer."""
    from marith.formula.text.calls import BUILT_IN, CALLS, offered

    return sorted({*CALLS, *offered()} - BUILT_IN)


def _described(name: str) -> str:
    """A method as one calls it, what its docstring says, and where it is if it is not marith's.

    A method of a package is imported; if it cannot be, the text says why.
    """
    from marith.formula.text.calls import BUILT_IN, CALLS, load_function

    try:
        load_function(name)
    except FormulaError as error:
        return f"{styled(name, bold=True)}\n    {error.problem}"
    parameters = inspect.signature(CALLS[name]).parameters.values()
    plain = ", ".join(str(each.replace(annotation=inspect.Parameter.empty)) for each in parameters)
    lines = [styled(f"{name}({plain})", bold=True)]
    lines.append(indent(inspect.getdoc(CALLS[name]) or "", "    "))
    if name not in BUILT_IN:
        lines.append(f"    From the module {inspect.unwrap(CALLS[name]).__module__}.")
    return "\n".join(filter(None, lines))


def _row(model: "StoredModel") -> tuple[str, ...]:
    from marith.models import amount

    return (
        model.name,
        model.architecture or "-",
        model.place if model.complete else f"{model.place}, incomplete",
        amount(model.size),
        amount(model.memory("float32")),
        amount(model.memory("bfloat16")),
        "-" if model.context is None else str(model.context),
    )


def _takes(model: "StoredModel") -> list[str]:
    """What it would take to load a model, line by line; each way with the lanes that fit."""
    if (takes := model.footprint) is None:
        return [f"\n{model.name}: its files do not say how many weights it has"]
    from marith.models import amount
    from marith.scoring.memory import free_memory
    from marith.scoring.weights.footprint import lanes_that_fit

    free = free_memory("cpu")
    lines = [
        f"\n{styled(model.name, bold=True)}: {takes.weights:,} weights, stored as {model.format}"
    ]
    ways = [*takes.choices()]
    if model.place == "file":  # which llama.cpp computes faster, in fewer bytes
        ways.insert(0, ("backend='llama.cpp'", model.size))
    for how, size in ways:
        dtype = "bfloat16" if "bfloat16" in how or "llama" in how else "float32"
        token = takes.token_bytes(dtype)
        texts = "" if token is None else f"; 1,000 tokens of a lane take {amount(1000 * token)}"
        context = model.context
        lanes = None if context is None else lanes_that_fit(free - size, token, context)
        if lanes is not None and "llama" in how:
            lanes = min(lanes, _LLAMA_CPP_LANES)
        fit = "" if lanes is None else f", {lanes:,} lanes of {context:,} tokens fit"
        room = f"{texts}{fit}" if size <= free else f": more than the {amount(free)} that are free"
        lines.append(f"  {how} takes {amount(size)}{room}")
    return lines


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Columns as wide as their longest cell; numbers stand to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for place, row in enumerate(rows):
        cells = [
            cell.ljust(width) if i < 3 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        typer.echo(styled("  ".join(cells), bold=True) if place == 0 else "  ".join(cells))
