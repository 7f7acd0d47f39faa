"""`--import`: Python modules of the user's own, whose methods formulas then call by name."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from marith.cli.shared import clear_errors
from marith.errors import RequestError

_HELP = "A Python file or module whose methods formulas call by name, see `marith.define`."


def import_modules(context: typer.Context, names: list[str] | None) -> None:
    """Import what the option names; the shell's completion of words imports nothing."""
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


Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        callback=import_modules,
        expose_value=False,
        help=f"{_HELP} Repeatable.",
    ),
]
