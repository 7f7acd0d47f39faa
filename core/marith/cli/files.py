"""Read and write files, read standard input, and make texts safe for a terminal."""

import sys
from pathlib import Path

import typer

from marith import RequestError, escape_control_chars
from marith.errors import unreadable


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
        # The result may have taken minutes, so it is not lost if it cannot be written.
        typer.echo(text)
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> RequestError:
    return RequestError(f"cannot write {str(path)!r}: {error.strerror or error}")


def for_terminal(text: str) -> str:
    """Return a text that is safe on a terminal. For a file or a program it is unchanged."""
    return escape_control_chars(text) if sys.stdout.isatty() else text
