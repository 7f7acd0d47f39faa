"""The commands that list: `marith models` and `marith recipes`."""

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marith import FormulaError, ModelError, RequestError, own_methods
from marith.cli.application import app, clear_errors
from marith.cli.options import Imports
from marith.errors import suggestion
from marith.recipes import RECIPES

if TYPE_CHECKING:
    from marith.models import StoredModel

OWN = "Methods from other packages"
HEADINGS = ("model", "architecture", "files", "on disk", "float32", "bfloat16", "context", "chat")
NOTE = """
float32 and bfloat16: the memory of the weights on a CPU, where a head that is tied to the
embeddings is copied. The KV cache, and up to 0.3 GB for the vocabulary, come on top. A GPU
computes in bfloat16. A CPU does too if it can multiply bfloat16 and the model is stored in
bfloat16; otherwise it computes in float32. --dtype overrides this. A GGUF file takes less. The
context is in tokens. A model without a chat template (the last column) is often a base model, which
continues a text and does not answer."""


@app.command()
def models(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", help="A directory, GGUF file or hub id.  [default: all local models]"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """List the models in the package and in the hub's cache. Loads no model.

    The tokens of several named language models are compared with those of the first.
    """
    from marith.models import describe, local

    with clear_errors():
        listed = [describe(name) for name in names] if names else local()
        if as_json:
            typer.echo(json.dumps([asdict(model) for model in listed], indent=2))
            return
        _print_table([HEADINGS, *map(_row, listed)])
        typer.echo(NOTE)
        for model in listed if names else ():
            typer.echo("\n".join(_takes(model)))
        _compare([model for model in listed if names and model.is_language_model])


@app.command()
def recipes(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="A recipe.  [default: all]"),
    ] = None,
    _imports: Imports = None,
) -> None:
    """List the methods that formulas can call by name, each with its equation and paper.

    Methods of installed packages and of --import come last.
    """
    with clear_errors():
        own = own_methods()
        methods = {**RECIPES, **own}
        for name in names or ():
            if name not in methods:
                hint = suggestion(name, methods, "; `marith recipes` lists all")
                raise RequestError(f"there is no recipe {name!r}{hint}")
        listed = [_described(name, methods[name], name in own) for name in names or RECIPES]
        typer.echo("\n\n".join(listed))
        if own and not names:
            typer.echo(f"\n{OWN}\n")
            typer.echo("\n\n".join(_described(name, own[name], True) for name in own))


def _described(name: str, method: Callable[..., Any] | FormulaError, is_own: bool) -> str:
    """Return a method's signature and docstring, and the module if the method is not marith's."""
    if isinstance(method, FormulaError):
        return f"{name}\n    {method.problem}"
    parameters = inspect.signature(method).parameters.values()
    plain = ", ".join(str(each.replace(annotation=inspect.Parameter.empty)) for each in parameters)
    lines = [f"{name}({plain})", indent(inspect.getdoc(method) or "", "    ")]
    if is_own:
        lines.append(f"    From the module {inspect.unwrap(method).__module__}.")
    return "\n".join(filter(None, lines))


def _row(model: "StoredModel") -> tuple[str, ...]:
    from marith.models import bytes_text

    return (
        model.name,
        model.architecture or "-",
        model.place if model.complete else f"{model.place}, incomplete",
        bytes_text(model.size),
        bytes_text(model.memory("float32")),
        bytes_text(model.memory("bfloat16")),
        "-" if model.context is None else str(model.context),
        "yes" if model.chat else "-",
    )


def _takes(model: "StoredModel") -> list[str]:
    """Return a line for each way to load a model, with its memory and the lanes that fit."""
    from marith import free_memory
    from marith.models import bytes_text

    if not (ways := model.ways(free_memory("cpu"))):
        return [f"\n{model.name}: the files do not state the number of weights"]
    lines = [f"\n{model.name}: {model.weights:,} weights, stored as {model.format}"]
    return lines + [f"  {option} takes {bytes_text(nbytes)}{room}" for option, nbytes, room in ways]


def _compare(models: "Sequence[StoredModel]") -> None:
    """Print which tokens the other models share with the first."""
    from marith.models import compare_vocabularies

    for model in models[1:]:
        try:
            typer.echo(f"\n{compare_vocabularies(model.name, models[0].name)}")
        except ModelError as error:
            # The table of the models is complete without their tokenizers.
            typer.echo(f"\n{error}")


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    """Print columns that are as wide as their longest cell. Numbers are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        words = [cell.ljust(width) for cell, width in zip(row[:3], widths, strict=False)]
        numbers = [cell.rjust(width) for cell, width in zip(row[3:], widths[3:], strict=True)]
        typer.echo("  ".join([*words, *numbers]))
