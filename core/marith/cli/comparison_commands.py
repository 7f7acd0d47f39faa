"""Commands that compare: `marith eval attributes` and `harness`."""

from importlib.util import find_spec
from typing import Annotated

import typer

from marith.cli.evaluation_commands import (
    Column,
    Count,
    Data,
    Out,
    Samples,
    Seed,
    Temperature,
    Tokens,
    Where,
    settings,
)
from marith.cli.own_modules import Imports
from marith.cli.shared import (
    Backend,
    Definitions,
    Device,
    Dtype,
    Model,
    Plot,
    Revision,
    Terms,
    clear_errors,
    evals,
    pairs,
)
from marith.errors import RequestError

_JUDGE = "ATTRIBUTE=MODEL:LABEL; or happy=vader:positive, simple=length. Repeatable."
_THEIRS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

Judges = Annotated[
    list[str] | None,
    typer.Option("--judge", metavar="ATTRIBUTE=JUDGE", help=_JUDGE),
]


@evals.command()
def attributes(
    model: Model = "pocket",
    data: Data = None,
    column: Column = None,
    where: Where = None,
    term: Terms = None,
    define: Definitions = None,
    _imports: Imports = None,
    n: Count = None,
    out: Out = None,
    plot: Plot = None,
    seed: Seed = 0,
    samples: Samples = 1,
    max_tokens: Tokens = None,
    temperature: Temperature = 1.0,
    only: Annotated[
        list[int] | None,
        typer.Option("--curve", metavar="NUMBER", help="1 to 6: only this curve. Repeatable."),
    ] = None,
    judges: Judges = None,
    classifier: Annotated[str | None, typer.Option(help="MODEL:LABEL of the classifier C.")] = None,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    backend: Backend = None,
) -> None:
    """How attributes follow their factors: the paper's six curves."""
    options = {**locals(), "formulas": None, "only": tuple(only or ())}  # all options by name
    with clear_errors():
        from marith.evals.attributes import Attributes, attributes  # torch

        named = pairs("--judge", "ATTRIBUTE=MODEL:LABEL", judges)
        options["judges"] = {attribute: judge.strip() for attribute, judge in named.items()}
        attributes(Attributes(**settings(options))).show(out, plot)


@evals.command(context_settings=_THEIRS)
def harness(context: typer.Context, _imports: Imports = None) -> None:
    """Run lm-evaluation-harness on a formula, by that program's own options."""
    with clear_errors():
        if find_spec("lm_eval") is None:
            raise RequestError("the harness is not installed: pip install 'marith[harness]'")
        from marith.evals.harness import command_line  # torch

        command_line.run(context.args)
