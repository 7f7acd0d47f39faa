"""Functions that commands share: the application, exit codes, terms, texts and files."""

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

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

# Commands by the name that Python, the server or another program has for them.
OTHER_NAMES = {
    "explain": "show",
    "inspect": "why",
    **dict.fromkeys(("run", "ask", "complete"), "generate"),
    **dict.fromkeys(("list", "ls"), "models"),
    "train": "train-classifier",
}


class Commands(TyperGroup):
    """The commands. For a name in `OTHER_NAMES`, the error names the right command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that `args` begin with. Ends the program for an unknown command."""
        if args and args[0] in OTHER_NAMES:
            ctx.fail(f"No such command {args[0]!r}. Write `marith {OTHER_NAMES[args[0]]} …`.")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=Commands,
    help="Language models composed by arithmetic.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
evals = typer.Typer(help="Measure the effect of formulas.", no_args_is_help=True)
app.add_typer(evals, name="eval")
BARE = "M"  # the bare model, in a formula
BAD_INPUT = 2
TIMED_OUT = 124  # the exit code of coreutils' `timeout`
_OF_EVALS = ("inspect_ai", "scipy")  # packages that evaluations import first


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
    sys.path.insert(0, str(file.parent if file else Path.cwd()))  # stays, as for a script
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
            help="Log models, threads and costs to standard error, but no texts.",
        ),
    ] = False,
) -> None:
    """Language models composed by arithmetic."""


@contextmanager
def clear_errors() -> Iterator[None]:
    """Turn a MarithError into one sentence and exit code 2, and a time-out into exit code 124.

    A missing package of the extra `evals` is one sentence with exit code 2, too.
    """
    try:
        yield
    except MarithError as error:
        typer.echo(f"marith: {error}", err=True)
        code = TIMED_OUT if isinstance(error, DeadlineExceeded) else BAD_INPUT
        raise typer.Exit(code) from None
    except ModuleNotFoundError as error:
        if error.name not in _OF_EVALS:
            raise
        needed = f"evaluations need {error.name}: pip install 'marith[evals]'"
        typer.echo(f"marith: {needed}", err=True)
        raise typer.Exit(BAD_INPUT) from None


def named_terms(prompts: Sequence[str] | None, definitions: Sequence[str] | None) -> dict[str, Any]:
    """Return the terms of `--term` and `--define`, by name. Raises RequestError."""
    terms: dict[str, Any] = {**pairs("--term", "NAME=PROMPT", prompts)}
    for name, formula in pairs("--define", "NAME=FORMULA", definitions).items():
        if name in terms:
            raise RequestError(f"{name!r} is defined by both --term and --define")
        terms[name] = {"formula": formula}
    return terms


def note_unused(formula: str | Formula, terms: Mapping[str, Any], own: Iterable[str]) -> None:
    """Print on standard error which of the command's `own` terms the formula does not use."""
    for name in sorted({*own} - {BARE}):
        others = {other: term for other, term in terms.items() if other != name}
        with suppress(FormulaError):  # fails if the formula uses the term
            parse(formula, others)
            typer.echo(f"the formula does not use the term {name!r}", err=True)


def for_terminal(text: str) -> str:
    """Return a text that is safe on a terminal. For a file or a program it is unchanged."""
    return harmless(text) if sys.stdout.isatty() else text


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


def lines(path: Path | None) -> list[str]:
    """Return the lines of a file, or of standard input (-), without empty lines."""
    text = "" if path is None else read_text(path)
    return [line.strip() for line in text.splitlines() if line.strip()]


def read_text(path: Path) -> str:
    """Return the text of a file; - means standard input. Raises RequestError."""
    try:
        if str(path) == "-":
            return sys.stdin.read().removeprefix("\ufeff")  # the byte order mark of some editors
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        raise unreadable("standard input" if str(path) == "-" else path, error) from None


def require_writable(path: Path | None) -> None:
    """Raise RequestError if a file cannot be written. An existing file does not change."""
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
    """Make a folder and its parents. Raises RequestError if this fails."""
    if path is None:
        return
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from None


def write_or_print(text: str, path: Path | None) -> None:
    """Write a line to a file. Without a file, or if writing fails, print the line."""
    if path is None:
        typer.echo(text)
        return
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        typer.echo(text)  # so that a result of minutes is not lost
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> RequestError:
    return RequestError(f"cannot write {str(path)!r}: {error.strerror or error}")
