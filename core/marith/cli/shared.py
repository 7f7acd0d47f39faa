"""What all commands share: the application, the options of several, and clear errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from marith import __version__
from marith.cli.help_pages import CommandGroup
from marith.errors import MarithError, RequestError, unreadable

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

Formula = Annotated[str, typer.Option(help="What to sample from, e.g. '2*formal - M'.")]
Terms = Annotated[
    list[str] | None,
    typer.Option(
        "--term",
        metavar="NAME=PROMPT",
        help="A name of the formula: a system prompt or formula text. Repeatable.",
    ),
]
Model = Annotated[str, typer.Option(help="pocket, a directory or a hub id.")]
AsJson = Annotated[
    Path | None, typer.Option("--json", help="Write all there is as JSON; - prints it.")
]
Plot = Annotated[Path | None, typer.Option(help="Draw it: .png, .svg or .pdf.")]


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
) -> None:
    """Language models composed by arithmetic."""


@contextmanager
def clear_errors() -> Iterator[None]:
    """Bad input ends with one clear sentence and exit code 2."""
    try:
        yield
    except MarithError as error:
        typer.echo(f"marith: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from None


def split_terms(given: list[str] | None) -> dict[str, str]:
    """The terms of `--term`, by name. Raises RequestError for what is none."""
    return dict(_split(text) for text in given or ())


def lines(path: Path | None) -> list[str]:
    """The lines of a file that are not empty."""
    try:
        text = "" if path is None else path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise unreadable(path, error) from None
    return [line.strip() for line in text.splitlines() if line.strip()]


def _split(text: str) -> tuple[str, str]:
    name, equals, prompt = text.partition("=")
    if not equals or not name.strip():
        raise RequestError(f"--term is NAME=PROMPT, not {text!r}")
    if prompt.strip().startswith("{"):
        raise RequestError(
            f"--term {text!r}: a table belongs in a file; on the command line write "
            f"{name}='prompted(…)'"
        )
    return name.strip(), prompt


@evals.callback()
def _evals() -> None:
    """Measure: how much does it help?"""
