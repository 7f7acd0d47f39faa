"""The command line, `marith`: its commands by what they do.

Their modules have no `from __future__ import annotations`: typer would evaluate each annotation of
each command twice whenever the program starts.
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
from marith.cli.help_pages import complete_help
from marith.cli.shared import app, evals

complete_help(app)
complete_help(evals, "eval")

__all__ = ["app"]
