"""The application: its commands, the options of the program itself, exit codes and errors."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from marith import DeadlineExceeded, MarithError, __version__
from marith.errors import suggestion

# Keys are names of commands in Python, on the server or in other programs; values are names here.
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

    def invoke(self, ctx: Any) -> Any:
        """Run a command. An unknown option is answered by the most similar option."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            _advise(error)
            raise


def _advise(error: Any) -> None:
    """Say in an error of the command line what to write instead."""
    # Typer raises exceptions of click, or of its own copy of click. They have no common class.
    match type(error).__name__:
        case "NoSuchOption" if error.ctx is not None:
            options = [name for each in error.ctx.command.params for name in each.opts]
            error.possibilities = None
            meant = suggestion(error.option_name, [name for name in options if name[:2] == "--"])
            error.message = f"No such option: {error.option_name}{meant}"
        case "BadParameter" if found := _NUMBERS.search(error.message):
            error.message = "write a whole number" if "int" in found[0] else "write a number"


# How typer or click says that a text is not a number.
_NUMBERS = re.compile("valid (number|integer|float)")
app = typer.Typer(
    cls=Commands,
    help="Language models composed by arithmetic.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
evals = typer.Typer(help="Measure the effect of formulas.", no_args_is_help=True)
app.add_typer(evals, name="eval")
BAD_INPUT = 2
# coreutils' `timeout` has the same exit code.
TIMED_OUT = 124
# Evaluations import these packages first, so without the extra the error names one of them.
_OF_EVALS = ("inspect_ai", "scipy")


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
