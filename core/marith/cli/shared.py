"""What all commands share: the application, the options of several, and clear errors."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from marith import __version__
from marith.cli.help_pages import CommandGroup
from marith.cli.terminal.colours import styled
from marith.cli.terminal.loading_bar import hide_bars_of_transformers
from marith.cli.terminal.log_lines import log_to_stderr
from marith.errors import DeadlineExceeded, MarithError, RequestError, unreadable
from marith.formula.meaning.binding import resolve
from marith.formula.text.term_data import TermData, read_formula
from marith.formula.text.term_data import Terms as TermsByName
from marith.formula.tree.nodes import Formula

app = typer.Typer(
    cls=CommandGroup,
    help="Language models composed by arithmetic.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
evals = typer.Typer(cls=CommandGroup, help="Measure: how much does it help?", no_args_is_help=True)
app.add_typer(evals, name="eval")
BAD_INPUT = 2
TIMED_OUT = 124  # as coreutils' `timeout` has it


def completed_models(incomplete: str) -> list[str]:
    """The models of the package whose names begin so, for completion by the shell."""
    from marith.scoring.weights.locate import EMBEDDED

    return [name for name in EMBEDDED if name.startswith(incomplete)]


Terms = Annotated[
    list[str] | None,
    typer.Option(
        "--term",
        "-t",
        metavar="NAME=PROMPT",
        help="Define NAME as a system prompt. Repeatable.",
    ),
]
Definitions = Annotated[
    list[str] | None,
    typer.Option(
        "--define",
        metavar="NAME=FORMULA",
        help="Define NAME as a formula. Repeatable.",
    ),
]
Model = Annotated[
    str,
    typer.Option(
        "--model",
        "-m",
        autocompletion=completed_models,
        help="pocket, a directory, a GGUF file or a hub id.",
    ),
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


def _log_to_stderr(wanted: bool) -> None:
    if wanted:
        log_to_stderr()


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"marith {__version__}")
        raise typer.Exit


@app.callback()
def _marith(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            callback=_log_to_stderr,
            help="Log models, threads and the cost of requests to standard error; never texts.",
        ),
    ] = False,
) -> None:
    """Language models composed by arithmetic."""


@contextmanager
def clear_errors(loads: bool = True) -> Iterator[None]:
    """Bad input ends with one clear sentence and exit code 2, a time-out with 124.

    Commands that load no model say `loads=False`, and start sooner.
    """
    if loads:
        hide_bars_of_transformers()
    try:
        yield
    except MarithError as error:
        typer.echo(f"{styled('marith:', sys.stderr, fg='red', bold=True)} {error}", err=True)
        code = TIMED_OUT if isinstance(error, DeadlineExceeded) else BAD_INPUT
        raise typer.Exit(code) from None


def named_terms(
    prompts: Sequence[str] | None, definitions: Sequence[str] | None
) -> dict[str, TermData]:
    """The terms of `--term` and `--define`, by name. Raises RequestError for an invalid term."""
    terms: dict[str, TermData] = {**pairs("--term", "NAME=PROMPT", prompts)}
    for name, formula in pairs("--define", "NAME=FORMULA", definitions).items():
        if name in terms:
            raise RequestError(f"{name!r} is given by --term and by --define")
        terms[name] = {"formula": formula}
    return terms


def note_unused(formula: str | Formula, terms: TermsByName, given: Iterable[str]) -> None:
    """Say on standard error which of the terms `given` to a command its formula does not use."""
    used = resolve(terms, read_formula(formula)) if given else {}
    for name in sorted({*given} - {*used}):
        typer.echo(f"the formula does not use the term {name!r}", err=True)


def pairs(option: str, form: str, given: Sequence[str] | None) -> dict[str, str]:
    """The values of a repeatable option, by name; `form` is how one is written.

    Raises RequestError for what has no name, and for a name that is given twice.
    """
    values: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise RequestError(f"{option} is {form}, not {text!r}")
        if name in values:
            raise RequestError(f"{option} gives {name!r} twice: {values[name]!r} and {value!r}")
        values[name] = value
    return values


def lines(path: Path | None) -> list[str]:
    """The lines of a file, or of standard input (-), that are not empty."""
    text = "" if path is None else read_text(path)
    return [line.strip() for line in text.splitlines() if line.strip()]


def read_text(path: Path) -> str:
    """The text of a file; - is standard input. Raises RequestError for what cannot be read."""
    try:
        if str(path) == "-":
            return sys.stdin.read().removeprefix("\ufeff")  # the mark that some editors write first
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        raise unreadable("standard input" if str(path) == "-" else path, error) from None


def require_writable(path: Path | None) -> None:
    """Raise RequestError for a file that cannot be written; a file that exists stays as it is."""
    if path is None:
        return
    exists = path.exists()
    try:
        with path.open("a", encoding="utf-8"):
            pass
        if not exists:
            path.unlink()
    except OSError as error:
        raise _unwritable(path, error) from None


def require_folder(path: Path | None) -> None:
    """Make a folder with those above it. Raises RequestError for one that cannot be made."""
    if path is None:
        return
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from None


def write_or_print(text: str, path: Path | None) -> None:
    """Write a line to a file, or print it where there is none, or where writing fails."""
    if path is None:
        typer.echo(text)
        return
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        typer.echo(text)  # what took minutes is not lost
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> RequestError:
    return RequestError(f"cannot write {str(path)!r}: {error.strerror or error}")


@evals.callback()
def _evals() -> None:
    """Measure: how much does it help?"""
