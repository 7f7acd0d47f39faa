"""The command that times what speculation saves: `marith eval speed`."""

from typing import Annotated

import typer

from marith.cli.shared import AsJson, Model, Plot, clear_errors, evals, require_writable


@evals.command()
def speed(
    model: Model = "pocket",
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="SECTION", help="Of table,lambda,auto. Repeatable."),
    ] = None,
    prompts: Annotated[
        int | None, typer.Option(help="Texts a round; else each section its own.")
    ] = None,
    tokens: Annotated[int, typer.Option(help="At most so many tokens a text.")] = 64,
    rounds: Annotated[
        int | None, typer.Option(help="Medians are over so many; else each section its own.")
    ] = None,
    as_json: AsJson = None,
    plot: Plot = None,
) -> None:
    """Measure what speculation saves: the paper's table and figure, and what "auto" makes of it."""
    with clear_errors():
        from marith.evals.reporting.evaluation_report import check_outputs, split_sections
        from marith.evals.speed.savings import SECTIONS, SavingsSettings, run  # torch
        from marith.evals.speed.savings_report import WIDTH, draw

        sections = split_sections(only or (), SECTIONS)
        settings = SavingsSettings(model, sections, prompts, tokens, rounds)
        check_outputs(as_json, plot, sections, ("lambda",))
        for path in (plot, None if str(as_json) == "-" else as_json):
            require_writable(path)
        measured = run(settings)
        if plot is not None:
            draw(measured.curve, plot)
        measured.report().show_or_print_json(as_json, WIDTH)
