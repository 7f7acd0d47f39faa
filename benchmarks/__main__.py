"""Time formulas beside others, on the same weights and in turn: `python -m benchmarks`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.benchmark import run
from benchmarks.benchmark_report import draw, show
from benchmarks.benchmark_settings import REQUESTS, SECTIONS, BenchmarkSettings, LlamaShape
from benchmarks.section_variants import VARIANTS_OF_SECTION

_SHAPE = (
    "HIDDEN,LAYERS,HEADS,INTERMEDIATE,VOCABULARY of the random Llama (768,12,12,2048,16000), or "
    "what --model is inflated to."
)


def main(
    model: Annotated[
        str | None,
        typer.Option(help="pocket, a directory, a GGUF file or a hub id; else a random Llama."),
    ] = None,
    shape: Annotated[str | None, typer.Option(help=_SHAPE)] = None,
    tokens: Annotated[int, typer.Option(min=2, help="Tokens a measurement.")] = 32,
    rounds: Annotated[int, typer.Option(min=1, help="Medians are over this many rounds.")] = 5,
    only: Annotated[str, typer.Option(help="Sections, with commas between them.")] = ",".join(
        SECTIONS
    ),
    requests: Annotated[
        list[int] | None, typer.Option(min=1, help="Requests at once: 1, 4 and 16. Repeatable.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16, for everybody.")] = "float32",
    as_json: Annotated[Path | None, typer.Option("--json", help="Write all there is.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it: .png, .svg or .pdf.")] = None,
) -> None:
    """Time formulas beside transformers and llama.cpp, on the same weights and in turn."""
    sections, every = only.split(","), [*VARIANTS_OF_SECTION, "floor"]
    if unknown := [name for name in sections if name not in every]:
        raise typer.BadParameter(f"write some of {','.join(every)}, not {unknown[0]!r}")
    measured = run(
        BenchmarkSettings(
            model,
            None if shape is None else LlamaShape.parse(shape),
            tokens,
            rounds,
            sections,
            sorted(requests or REQUESTS),
            dtype,
        )
    )
    show(measured)
    if as_json is not None:
        as_json.write_text(json.dumps(asdict(measured), indent=2) + "\n", encoding="utf-8")
    if plot is not None:
        draw(measured, plot)


if __name__ == "__main__":
    typer.run(main)
