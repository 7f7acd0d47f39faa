"""What commands share: the application, clear errors, terms, texts and files."""

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from marith import (
    DeadlineExceeded,
    Formula,
    FormulaError,
    MarithError,
    RequestError,
    __version__,
    harmless,
    parse,
)
from marith.errors import unreadable

app = typer.Typer(
    help="Language models composed by arithmetic.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
evals = typer.Typer(help="Measure: how much does it help?", no_args_is_help=True)
app.add_typer(evals, name="eval")
BARE = "M"  # the model itself, in a formula
BAD_INPUT = 2
TIMED_OUT = 124  # as coreutils' `timeout` has it


def import_modules(context: typer.Context, names: list[str] | None) -> None:
    """Import what `--import` names; the shell's completion of words imports nothing."""
    if names and not context.resilient_parsing:
        with clear_errors():
            for name in names:
                _import(name)


def _import(name: str) -> None:
    """Import a module by its name, or a file by its path, as Python does for a script.

    Raises RequestError for a file that is absent, or whose name is that of another module, and for
    any error in the module.
    """
    file = Path(name).resolve() if name.endswith(".py") else None
    if file is not None and not file.is_file():
        raise RequestError(f"--import {name!r}: there is no such file")
    sys.path.insert(0, str(file.parent if file else Path.cwd()))  # stays, as that of a script does
    try:
        module = import_module(file.stem if file else name)
    except SystemExit:
        advice = "put what it runs under if __name__ == '__main__'"
        raise RequestError(f"--import {name!r} ends the program; {advice}") from None
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise RequestError(f"--import {name!r} cannot be imported: {problem}") from None
    if file is not None and Path(module.__file__ or "").resolve() != file:
        raise RequestError(f"--import {name!r}: {file.stem!r} is another module; rename the file")


def _log_to_stderr(wanted: bool) -> None:
    if wanted:
        logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("marith").setLevel(logging.DEBUG)


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
def clear_errors() -> Iterator[None]:
    """End bad input with one clear sentence and exit code 2, and a time-out with 124."""
    try:
        yield
    except MarithError as error:
        typer.echo(f"marith: {error}", err=True)
        code = TIMED_OUT if isinstance(error, DeadlineExceeded) else BAD_INPUT
        raise typer.Exit(code) from None


def named_terms(prompts: Sequence[str] | None, definitions: Sequence[str] | None) -> dict[str, Any]:
    """Return the terms of `--term` and `--define`, by name. Raises RequestError."""
    terms: dict[str, Any] = {**pairs("--term", "NAME=PROMPT", prompts)}
    for name, formula in pairs("--define", "NAME=FORMULA", definitions).items():
        if name in terms:
            raise RequestError(f"{name!r} is given by --term and by --define")
        terms[name] = {"formula": formula}
    return terms


def note_unused(formula: str | Formula, terms: Mapping[str, Any], own: Iterable[str]) -> None:
    """Say on standard error which of a command's `own` terms its formula does not use."""
    for name in sorted({*own} - {BARE}):
        others = {other: term for other, term in terms.items() if other != name}
        with suppress(FormulaError):  # without a term that it uses, a formula has no meaning
            parse(formula, others)
            typer.echo(f"the formula does not use the term {name!r}", err=True)


def for_terminal(text: str) -> str:
    """Return a text as a terminal may show it; a file or a program gets it as it is."""
    return harmless(text) if sys.stdout.isatty() else text


def pairs(option: str, form: str, texts: Sequence[str] | None) -> dict[str, str]:
    """Return the values of a repeatable option, by name; `form` is how one is written.

    Raises RequestError for what has no name, and for a name that is given twice.
    """
    values: dict[str, str] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise RequestError(f"{option} is {form}, not {text!r}")
        if name in values:
            raise RequestError(f"{option} gives {name!r} twice: {values[name]!r} and {value!r}")
        values[name] = value
    return values


def lines(path: Path | None) -> list[str]:
    """Return the lines of a file, or of standard input (-), that are not empty."""
    text = "" if path is None else read_text(path)
    return [line.strip() for line in text.splitlines() if line.strip()]


def read_text(path: Path) -> str:
    """Return the text of a file; - is standard input. Raises RequestError."""
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
