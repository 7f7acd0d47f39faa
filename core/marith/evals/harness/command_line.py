"""Run the harness's own command line, with `marith` as the default model."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lm_eval.__main__ import cli_evaluate

from marith.errors import RequestError

# This import registers the model with the harness.
from marith.evals.harness.model import NAME

COMMANDS = ("run", "ls", "validate")
OURS = (("--model", "-M", NAME), ("--batch_size", "-b", "auto"))
# The harness's error for unknown tasks begins with this text.
UNKNOWN_TASK = "Tasks not found: "


def run(arguments: Sequence[str]) -> None:
    """Run `lm_eval` with these arguments. The default model is marith.

    Raises the errors of `MarithLM`. Raises RequestError for an unknown task, or if the data of a
    task cannot be loaded. Raises SystemExit for arguments that the harness's parser refuses.
    """
    # The harness reads its arguments from sys.argv.
    before = sys.argv
    sys.argv = ["marith eval harness", *completed(arguments)]
    try:
        cli_evaluate()
    # The library that loads the data of tasks raises this error, for example without a network.
    except ConnectionError as error:
        raise RequestError(f"the data of a task cannot be loaded: {error}") from None
    except ValueError as error:
        if not str(error).startswith(UNKNOWN_TASK):
            raise
        names = str(error).removeprefix(UNKNOWN_TASK)
        listed = "`marith eval harness ls tasks` lists the tasks"
        raise RequestError(f"the harness has no task {names}; {listed}") from None
    finally:
        sys.argv = before


def completed(arguments: Sequence[str]) -> list[str]:
    """Return the arguments, with marith's model and batch size if they name none.

    A configuration file (`--config`) sets both itself.
    """
    named = bool(arguments) and arguments[0] in COMMANDS
    command, *rest = arguments if named else ("run", *arguments)
    options = {word.partition("=")[0] for word in rest}
    if command == "run" and rest and options.isdisjoint(("--config", "-C", "--help", "-h")):
        for long, short, value in OURS:
            rest += [long, value] if options.isdisjoint((long, short)) else []
    return [command, *rest]
