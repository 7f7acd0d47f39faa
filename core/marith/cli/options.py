"""The options that several commands have, each with its help."""

from pathlib import Path
from typing import Annotated

import typer

from marith.cli.shared import import_modules

Terms = Annotated[
    list[str] | None,
    typer.Option(
        "--term", "-t", metavar="NAME=PROMPT", help="Define NAME as a system prompt. Repeatable."
    ),
]
Definitions = Annotated[
    list[str] | None,
    typer.Option("--define", metavar="NAME=FORMULA", help="Define NAME as a formula. Repeatable."),
]
Model = Annotated[
    str, typer.Option("--model", "-m", help="pocket, a directory, a GGUF file or a hub id.")
]
Device = Annotated[str | None, typer.Option(help="cpu or cuda; else what the machine has.")]
Dtype = Annotated[str | None, typer.Option(help="float32 or bfloat16; else what suits the device.")]
Backend = Annotated[
    str | None, typer.Option(help="llama.cpp computes a GGUF file; else transformers.")
]
Revision = Annotated[str | None, typer.Option(help="A branch, tag or commit of a hub model.")]
Stops = Annotated[
    list[str] | None, typer.Option(metavar="TEXT", help="End before this. Repeatable.")
]
Plot = Annotated[Path | None, typer.Option(help="Draw it: .png, .svg or .pdf.")]
Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        callback=import_modules,
        expose_value=False,
        help="A Python file or module whose methods formulas call by name, see `marith.define`. "
        "Repeatable.",
    ),
]
Prompt = Annotated[str, typer.Argument(metavar="PROMPT", help="What to answer; - reads it.")]
OptionalModel = Annotated[
    str | None,
    typer.Option(
        "--model", "-m", help="pocket, a directory, a GGUF file or a hub id.  [default: pocket]"
    ),
]
File = Annotated[
    Path | None, typer.Option(help="A persona file (TOML); options given here override its own.")
]
Persona = Annotated[str | None, typer.Option(help="A formula of --file, by name.")]
Formula = Annotated[
    str | None,
    typer.Option("--formula", "-f", help="What to sample from, e.g. '2*formal - M'.  [default: M]"),
]
Adapters = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]LORA",
        help="A LoRA adapter of the model: the term NAME, or M without a name. Repeatable.",
    ),
]
System = Annotated[str | None, typer.Option(help="The application's system message.")]
MaxTokens = Annotated[int | None, typer.Option(help="At most so many tokens.  [default: 256]")]
Temperature = Annotated[
    float | None, typer.Option(help="0 takes the likeliest token.  [default: 1.0]")
]
TopP = Annotated[float | None, typer.Option(help="Sample from this nucleus.  [default: 1.0]")]
TopK = Annotated[int | None, typer.Option(help="Sample from the k likeliest.")]
Seed = Annotated[int | None, typer.Option(help="Equal seeds give equal texts.")]
Timeout = Annotated[
    float | None, typer.Option(help="Give up after so many seconds of answering: exit code 124.")
]
Context = Annotated[
    int | None, typer.Option(help="The most tokens that the model reads; else its own number.")
]
