"""The command that searches for the numbers of a formula: `marith tune`."""

from typing import Annotated

import typer

from marith.cli.evaluation_commands import (
    Column,
    Count,
    Frame,
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
    Revision,
    Stops,
    Terms,
    app,
    clear_errors,
)

_PROMPTS = "A .json, .jsonl or .csv file, or hub:owner/name:split."
Unknown = Annotated[
    str, typer.Argument(metavar="FORMULA", help="With unknowns: 'M - a*union(toxic, M) + b*C'.")
]
Ranges = Annotated[
    list[str],
    typer.Option("--range", metavar="NAME=LOW:HIGH", help="Of an unknown. Repeatable."),
]
Attribute = Annotated[
    str, typer.Option(help="MODEL:LABEL of a classifier, or vader:positive, vader:negative.")
]
Direction = Annotated[str, typer.Option(help="Where the attribute is to go: down or up.")]
Bound = Annotated[
    str, typer.Option("--perplexity-bound", help="At most so much, or 1.2x: times that of M.")
]
Trials = Annotated[int, typer.Option(help="So many assignments; more go on in the same --out.")]
Task = Annotated[
    str, typer.Option(help="How prompts are framed, and its terms: chat, toxicity or sentiment.")
]
Prompts = Annotated[str | None, typer.Option("--prompts", "--data", help=_PROMPTS)]


@app.command()
def tune(
    formula: Unknown,
    ranges: Ranges,
    attribute: Attribute,
    direction: Direction,
    bound: Bound = "1.2x",
    trials: Trials = 30,
    task: Task = "chat",
    model: Model = "pocket",
    data: Prompts = None,
    column: Column = None,
    where: Where = None,
    term: Terms = None,
    define: Definitions = None,
    _imports: Imports = None,
    frame: Frame = None,
    stop: Stops = None,
    n: Count = None,
    out: Out = None,
    seed: Seed = 0,
    samples: Samples = 1,
    max_tokens: Tokens = None,
    temperature: Temperature = 1.0,
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    backend: Backend = None,
) -> None:
    """Find the numbers of FORMULA that move an attribute farthest while texts stay fluent."""
    options = {**locals(), "formulas": None, "stop": tuple(stop or ())}  # all options by name
    with clear_errors():
        from marith.evals.tuning.tune import Tuning, run  # torch
        from marith.evals.tuning.unknowns import Range

        options["ranges"] = tuple(map(Range.read, ranges))
        run(Tuning(**settings(options))).show(out)
