"""Time formulas beside others, on the same weights and in turn: `python -m benchmarks`."""

from typing import Annotated

import typer

from benchmarks.benchmark import run
from benchmarks.benchmark_report import TITLES, WIDTH, draw
from benchmarks.benchmark_settings import REQUESTS, SECTIONS, BenchmarkSettings
from marith.cli.shared import AsJson, Plot, Quantize, clear_errors, require_writable
from marith.evals.reporting.evaluation_report import check_outputs, split_sections
from marith.evals.speed.shape import LlamaShape

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


def main(
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


if __name__ == "__main__":
    typer.run(main)
