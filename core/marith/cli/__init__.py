"""The command line, `marith`.

The modules of this room do not use `from __future__ import annotations`. With it, typer would
evaluate each annotation of each command twice whenever the program starts.

- `application`: the application, exit codes and errors.
- `chat_command`: `marith chat`.
- `evaluation_commands`: `marith eval` with its commands, and `marith tune`.
- `files`: texts of files and of standard input.
- `formula_commands`: `marith calibrate`, `show` and `demo`.
- `generate_command`: `marith generate`.
- `help_pages`: the order and the examples of the help pages.
- `listing_commands`: `marith models` and `marith recipes`.
- `options`: options that several commands share, and what their values mean.
- `serve_command`: `marith serve` and `marith play`.
- `train_command`: `marith train-classifier` and `marith train-vector`.
- `why_command`: `marith why`.
"""

from marith.cli import (  # noqa: F401 (commands, which register themselves)
    chat_command,
    evaluation_commands,
    formula_commands,
    generate_command,
    listing_commands,
    serve_command,
    train_command,
    why_command,
)
from marith.cli.application import app, evals
from marith.cli.help_pages import complete_help

complete_help(app)
complete_help(evals, "eval")

__all__ = ["app"]
