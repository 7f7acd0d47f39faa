"""The options that several commands share, with their help, in groups."""

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
Model = Annotated[str, typer.Option("--model", "-m", help="A directory, GGUF file or hub id.")]
Device = Annotated[str | None, typer.Option(help="cpu or cuda.  [default: cuda if available]")]
Dtype = Annotated[str | None, typer.Option(help="float32 or bfloat16.  [default: by device]")]
Backend = Annotated[
    str | None, typer.Option(help="llama.cpp, for a GGUF file.  [default: transformers]")
]
Revision = Annotated[str | None, typer.Option(help="The hub model's branch, tag or commit.")]
Stops = Annotated[list[str] | None, typer.Option(metavar="TEXT", help="A stop string. Repeatable.")]
Plot = Annotated[Path | None, typer.Option(help="Write a plot: .png, .svg or .pdf.")]
Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        callback=import_modules,
        expose_value=False,
        help="A Python file or module that defines methods by `marith.define`. Repeatable.",
    ),
]
Prompt = Annotated[
    str, typer.Argument(metavar="PROMPT", help="The prompt; - reads standard input.")
]
OptionalModel = Annotated[
    str | None,
    typer.Option("--model", "-m", help="A directory, GGUF file or hub id.  [default: pocket]"),
]
File = Annotated[
    Path | None, typer.Option(help="A persona file (TOML). Other options override its own.")
]
Persona = Annotated[str | None, typer.Option(help="The name of a formula in --file.")]
Formula = Annotated[
    str | None,
    typer.Option("--formula", "-f", help="The formula, e.g. '2*formal - M'.  [default: M]"),
]
Adapters = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]LORA",
        help="A LoRA adapter as the term NAME, or as M without a name. Repeatable.",
    ),
]
System = Annotated[str | None, typer.Option(help="The system message.")]
MaxTokens = Annotated[
    int | None, typer.Option(help="The maximum number of tokens.  [default: 256]")
]
Temperature = Annotated[
    float | None, typer.Option(help="0 takes the likeliest token.  [default: 1.0]")
]
TopP = Annotated[
    float | None,
    typer.Option(help="The probability of the nucleus to sample from.  [default: 1.0]"),
]
TopK = Annotated[int | None, typer.Option(help="Sample from the k likeliest tokens.")]
Seed = Annotated[int | None, typer.Option(help="Equal seeds give equal texts.")]
Timeout = Annotated[
    float | None, typer.Option(help="The time limit for the answer in seconds. Exit code 124.")
]
Context = Annotated[
    int | None, typer.Option(help="The maximum context in tokens.  [default: the model's]")
]


def defined(term: Terms = None, define: Definitions = None, _imports: Imports = None) -> None:
    """Declare the options that define the terms of a formula."""


def placed(
    device: Device = None, dtype: Dtype = None, revision: Revision = None, backend: Backend = None
) -> None:
    """Declare the options of a model's device, type, revision and backend."""


def asked(
    model: OptionalModel = None,
    formula: Formula = None,
    file: File = None,
    persona: Persona = None,
    system: System = None,
) -> None:
    """Declare the options of the formula that answers."""


def drawn(
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    top_k: TopK = None,
    seed: Seed = None,
    stop: Stops = None,
) -> None:
    """Declare the options of sampling and stopping."""


def loaded(
    adapter: Adapters = None, context_length: Context = None, timeout: Timeout = None
) -> None:
    """Declare the options for adapters, the context and the time limit."""


def takes(*groups: Callable[..., None]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options of these groups to a command, which receives them as keyword arguments.

    An option that the command declares itself replaces the option of a group.
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
