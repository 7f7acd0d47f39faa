"""The options that several commands have: each with its help, and in groups that commands take."""

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

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


def defined(term: Terms = None, define: Definitions = None, _imports: Imports = None) -> None:
    """Name what a formula is made of."""


def placed(
    device: Device = None, dtype: Dtype = None, revision: Revision = None, backend: Backend = None
) -> None:
    """Say where a model runs, and in which form."""


def asked(
    model: OptionalModel = None,
    formula: Formula = None,
    file: File = None,
    persona: Persona = None,
    system: System = None,
) -> None:
    """Say which formula answers."""


def drawn(
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    top_k: TopK = None,
    seed: Seed = None,
    stop: Stops = None,
) -> None:
    """Say how tokens are drawn, and where a text ends."""


def loaded(
    adapter: Adapters = None, context_length: Context = None, timeout: Timeout = None
) -> None:
    """Say what is loaded for one command, and how long the command may take."""


def takes(*groups: Callable[..., None]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of these groups, which it receives as keyword arguments.

    An option that the command declares itself takes the place of a group's.
    """

    def extended(command: Callable[..., None]) -> Callable[..., None]:
        found: dict[str, Parameter] = {}
        for function in (*groups, command):
            for name, parameter in signature(function).parameters.items():
                found[name] = parameter.replace(kind=Parameter.KEYWORD_ONLY)
        found.pop("options")  # the command's keyword arguments
        changed: Any = command
        changed.__signature__ = Signature([*found.values()])
        return command

    return extended
