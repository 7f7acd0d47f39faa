"""The command that measures what speculation saves: `marith eval speed`."""

from pathlib import Path
from typing import Annotated

import typer

from marith.cli.shared import Model, Plot, clear_errors, evals, require_writable
from marith.errors import RequestError
from marith.showing import check_file, check_plot


@evals.command()
def speed(
    model: Model = "pocket",
    only: Annotated[str, typer.Option(help="Sections, with commas between them.")] = "table,lambda",
    prompts: Annotated[int, typer.Option(help="Texts in a round.")] = 12,
    tokens: Annotated[int, typer.Option(help="Maximum number of tokens of a text.")] = 64,
    rounds: Annotated[int, typer.Option(help="Rounds of the table of medians.")] = 2,
    csv: Annotated[Path | None, typer.Option(help="Write every number there is.")] = None,
    plot: Plot = None,
) -> None:
    """Measure what speculation saves: the paper's table, and its figure of calls a token by λ."""
    with clear_errors():
        from marith.evals.speed.savings import SavingsSettings, run  # torch

        settings = SavingsSettings(model, only.split(","), prompts, tokens, rounds)
        check_file(csv)
        check_plot(plot)
        if plot is not None and "lambda" not in settings.sections:
            raise RequestError(f"a plot shows lambda, and --only is {only!r}")
        for path in (plot, csv):
            require_writable(path)
        run(settings).show(csv, plot)
