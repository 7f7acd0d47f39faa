"""Commands that time: `marith bench` and `marith eval speed`."""

from __future__ import annotations

from typing import Annotated

import typer

from marith.cli.shared import AsJson, Model, Plot, app, clear_errors, evals

_SHAPE = (
    "HIDDEN,LAYERS,HEADS,INTERMEDIATE,VOCABULARY of the random Llama (768,12,12,2048,16000), or "
    "what --model is inflated to."
)


@app.command()
def bench(
    model: Annotated[
        str | None, typer.Option(help="pocket, a directory or a hub id; else a random Llama.")
    ] = None,
    shape: Annotated[str | None, typer.Option(metavar="SIZES", help=_SHAPE)] = None,
    tokens: Annotated[int, typer.Option(help="Tokens a measurement.")] = 32,
    rounds: Annotated[int, typer.Option(help="Medians are over so many.")] = 5,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Of terms,concurrency,first-token,floor. Repeatable."),
    ] = None,
    as_json: AsJson = None,
    plot: Plot = None,
) -> None:
    """Time formulas against transformers' own decoding, on the same weights and in turn."""
    with clear_errors():
        from marith.evals.bench import running, settings, showing  # torch

        sections = settings.split_sections(only or ())
        sizes = None if shape is None else settings.Shape.parse(shape)
        asked = settings.Settings(model, sizes, tokens, rounds, sections)
        showing.check_outputs(as_json, plot, sections)
        showing.show(running.run(asked), as_json, plot)


@evals.command()
def speed(
    model: Model = "pocket",
    only: Annotated[
        list[str] | None, typer.Option(help="Of table,lambda,auto,large. Repeatable.")
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
        from marith.evals.speed import running, settings, showing  # torch

        sections = settings.split_sections(only or ())
        asked = settings.Settings(model, sections, prompts, tokens, rounds)
        showing.check_outputs(as_json, plot, sections)
        showing.show(running.run(asked), as_json, plot)
