"""Commands that time: `marith bench` and `marith eval speed`."""

from typing import Annotated

import typer

from marith.cli.shared import (
    AsJson,
    Model,
    Plot,
    Quantize,
    app,
    clear_errors,
    evals,
    require_writable,
)

_SHAPE = (
    "HIDDEN,LAYERS,HEADS,INTERMEDIATE,VOCABULARY of the random Llama (768,12,12,2048,16000), or "
    "what --model is inflated to."
)
Sizes = Annotated[str | None, typer.Option(metavar="SIZES", help=_SHAPE)]
Together = Annotated[
    list[int] | None,
    typer.Option(metavar="COUNT", help="So many at once: 1, 4 and 16. Repeatable."),
]
Sections = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SECTION",
        help="Of terms,step,concurrency,first-token,mixed,floor; drafts, memory, start, peers and "
        "step-peers are timed only where they are named. Repeatable.",
    ),
]
Numbers = Annotated[str, typer.Option(help="float32 or bfloat16, for everybody.")]


@app.command()
def bench(
    model: Annotated[
        str | None,
        typer.Option(help="pocket, a directory, a GGUF file or a hub id; else a random Llama."),
    ] = None,
    shape: Sizes = None,
    tokens: Annotated[int, typer.Option(help="Tokens a measurement.")] = 32,
    rounds: Annotated[int, typer.Option(help="Medians are over so many.")] = 5,
    only: Sections = None,
    requests: Together = None,
    dtype: Numbers = "float32",
    quantize: Quantize = None,
    as_json: AsJson = None,
    plot: Plot = None,
) -> None:
    """Time formulas against transformers' own decoding, on the same weights and in turn."""
    with clear_errors():
        from marith.evals.reporting.evaluation_report import check_outputs, split_sections
        from marith.evals.speed.benchmark.benchmark import run  # torch
        from marith.evals.speed.benchmark.benchmark_report import TITLES, WIDTH, draw
        from marith.evals.speed.benchmark.benchmark_settings import (
            REQUESTS,
            SECTIONS,
            BenchmarkSettings,
        )
        from marith.evals.speed.benchmark.shape import LlamaShape

        sections = split_sections(only or (), SECTIONS)
        sizes = None if shape is None else LlamaShape.parse(shape)
        settings = BenchmarkSettings(
            model, sizes, tokens, rounds, sections, requests or REQUESTS, dtype, quantize
        )
        check_outputs(as_json, plot, sections, tuple(TITLES))
        for path in (plot, None if str(as_json) == "-" else as_json):
            require_writable(path)
        measured = run(settings)
        if plot is not None:
            draw(measured, plot)
        measured.report().show_or_print_json(as_json, WIDTH)


@evals.command()
def speed(
    model: Model = "pocket",
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="SECTION", help="Of table,lambda,auto,large. Repeatable."),
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
        from marith.evals.speed.speculation.savings import run  # torch
        from marith.evals.speed.speculation.savings_report import WIDTH, draw
        from marith.evals.speed.speculation.speed_sizes import SECTIONS, SavingsSettings

        sections = split_sections(only or (), SECTIONS)
        settings = SavingsSettings(model, sections, prompts, tokens, rounds)
        check_outputs(as_json, plot, sections, ("lambda",))
        for path in (plot, None if str(as_json) == "-" else as_json):
            require_writable(path)
        measured = run(settings)
        if plot is not None:
            draw(measured.curve, plot)
        measured.report().show_or_print_json(as_json, WIDTH)
