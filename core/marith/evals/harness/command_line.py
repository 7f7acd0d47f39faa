"""The harness's own command line, with `marith` among its models."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lm_eval.__main__ import cli_evaluate

from marith.errors import RequestError
from marith.evals.harness.model import NAME  # which registers it

COMMANDS = ("run", "ls", "validate")
UNKNOWN_TASK = "Tasks not found: "  # as the harness's error begins
OURS = (("--model", "-M", NAME), ("--batch_size", "-b", "auto"))


def run(arguments: Sequence[str]) -> None:
    """Do what `lm_eval` does with these arguments; the model is ours where none is named.

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
    """The arguments with our model, and as many requests in flight as it likes, where not given.

    A configuration file of the harness sets both.
    """
    command, rest = "run", list(arguments)
    if rest and rest[0] in COMMANDS:
        command, rest = rest[0], rest[1:]
    options = {word.partition("=")[0] for word in rest}
    if command == "run" and rest and not options & {"--config", "-C", "--help", "-h"}:
        for long, short, value in OURS:
            rest += [] if options & {long, short} else [long, value]
    return [command, *rest]
