"""The harness's own command line, with `marith` among its models."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lm_eval.__main__ import cli_evaluate

from marith.errors import RequestError
from marith.evals.harness.model import NAME  # which registers it

COMMANDS = ("run", "ls", "validate")
OURS = (("--model", "-M", NAME), ("--batch_size", "-b", "auto"))
UNKNOWN_TASK = "Tasks not found: "  # as the harness's error begins


def run(arguments: Sequence[str]) -> None:
    """Do what `lm_eval` does with these arguments; the model is ours if none is named.

    Raises what `MarithLM` raises, RequestError for a task that is unknown or whose data cannot be
    had, and SystemExit for what the harness's parser refuses.
    """
    before = sys.argv
    sys.argv = ["marith eval harness", *completed(arguments)]
    try:
        cli_evaluate()
    except ConnectionError as error:  # of what reads the data of tasks
        raise RequestError(f"the data of a task cannot be had: {error}") from None
    except ValueError as error:
        if not str(error).startswith(UNKNOWN_TASK):
            raise
        names = str(error).removeprefix(UNKNOWN_TASK)
        listed = "`marith eval harness ls tasks` lists those there are"
        raise RequestError(f"the harness has no task {names}; {listed}") from None
    finally:
        sys.argv = before


def completed(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with our model and batch size, unless a configuration file sets both."""
    named = bool(arguments) and arguments[0] in COMMANDS
    command, *rest = arguments if named else ("run", *arguments)
    options = {word.partition("=")[0] for word in rest}
    if command == "run" and rest and options.isdisjoint(("--config", "-C", "--help", "-h")):
        for long, short, value in OURS:
            rest += [long, value] if options.isdisjoint((long, short)) else []
    return [command, *rest]
