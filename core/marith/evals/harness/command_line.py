"""The harness's own command line, with `marith` among its models."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lm_eval.__main__ import cli_evaluate

from marith.evals.harness.model import NAME  # which registers it

COMMANDS = ("run", "ls", "validate")
OURS = (("--model", "-M", NAME), ("--batch_size", "-b", "auto"))


def run(arguments: Sequence[str]) -> None:
    """Do what `lm_eval` does with these arguments; the model is ours where none is named.

    Raises what `MarithLM` raises, and SystemExit for what the harness's parser refuses.
    """
    before = sys.argv
    sys.argv = ["marith eval harness", *completed(arguments)]
    try:
        cli_evaluate()
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
