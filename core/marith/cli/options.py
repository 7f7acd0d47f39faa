"""The options that several commands share: their help, in groups, and what their values mean."""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

import marith
from marith import FormulaError, RequestError, parse
from marith.cli.application import clear_errors

BARE = "M"  # the bare model, in a formula


def import_modules(context: typer.Context, names: list[str] | None) -> None:
    """Import the modules of `--import`, except during shell completion."""
    if names and not context.resilient_parsing:
        with clear_errors():
            for name in names:
                _import(name)


def _import(name: str) -> None:
    """Import a module by its name, or a file by its path, as Python does for a script.

    Raises RequestError if the file does not exist, if its name is the name of another module, or if
    the module raises an error.
    """
    file = Path(name).resolve() if name.endswith(".py") else None
    if file is not None and not file.is_file():
        raise RequestError(f"--import {name!r}: the file does not exist")
    # The folder stays in the path, as the folder of a script does.
    sys.path.insert(0, str(file.parent if file else Path.cwd()))
    try:
        module = import_module(file.stem if file else name)
    except SystemExit:
        advice = "put its code under if __name__ == '__main__'"
        raise RequestError(f"--import {name!r} ends the program; {advice}") from None
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise RequestError(f"--import {name!r} cannot be imported: {problem}") from None
    if file is not None and Path(module.__file__ or "").resolve() != file:
        raise RequestError(f"--import {name!r}: {file.stem!r} is another module; rename the file")


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
Over = Annotated[
    str | None,
    typer.Option(help="tokens, or bytes to combine models of any vocabulary.  [default: tokens]"),
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
    device: Device = None,
    dtype: Dtype = None,
    revision: Revision = None,
    backend: Backend = None,
    over: Over = None,
) -> None:
    """Declare the options of a model's device, type, revision, backend and tokens."""


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
        # `**options` collects the options of the groups; it is not an option itself.
        found.pop("options")
        changed: Any = command
        changed.__signature__ = Signature([*found.values()])
        return command

    return extended


def named_terms(prompts: Sequence[str] | None, definitions: Sequence[str] | None) -> dict[str, Any]:
    """Return the terms of `--term` and `--define`, by name. Raises RequestError."""
    terms: dict[str, Any] = {**pairs("--term", "NAME=PROMPT", prompts)}
    for name, formula in pairs("--define", "NAME=FORMULA", definitions).items():
        if name in terms:
            raise RequestError(f"{name!r} is defined by both --term and --define")
        terms[name] = {"formula": formula}
    return terms


def note_unused(
    formula: str | marith.Formula, terms: Mapping[str, Any], own: Iterable[str]
) -> None:
    """Print on standard error which of the command's `own` terms the formula does not use."""
    for name in sorted({*own} - {BARE}):
        others = {other: term for other, term in terms.items() if other != name}
        # Without the term's definition, a formula that uses the term cannot be parsed.
        with suppress(FormulaError):
            parse(formula, others)
            typer.echo(f"the formula does not use the term {name!r}", err=True)


def pairs(option: str, form: str, texts: Sequence[str] | None) -> dict[str, str]:
    """Return the values of a repeatable option by name. `form` is the form of one value.

    Raises RequestError for a value without a name, and for a repeated name.
    """
    values: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise RequestError(f"{option} must be {form}, not {text!r}")
        if name in values:
            raise RequestError(f"{option} defines {name!r} twice: {values[name]!r} and {value!r}")
        values[name] = value
    return values
