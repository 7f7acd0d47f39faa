"""The command line, `marith`: its commands by what they do.

Their modules have no `from __future__ import annotations`: typer would evaluate each annotation of
each command twice whenever the program starts.
"""

from marith.cli import (
    comparison_commands,
    evaluation_commands,
    formula_commands,
    generate_command,
    timing_commands,
    train_command,
    tune_command,
)
from marith.cli.chatting import chat_command
from marith.cli.help_pages import complete_help
from marith.cli.listing import listing_commands
from marith.cli.serving import play_command, serve_command
from marith.cli.shared import app, evals
from marith.cli.why import why_command

complete_help(app)
complete_help(evals, "eval")

__all__ = [
    "app",
    "chat_command",
    "comparison_commands",
    "evaluation_commands",
    "formula_commands",
    "generate_command",
    "listing_commands",
    "play_command",
    "serve_command",
    "timing_commands",
    "train_command",
    "tune_command",
    "why_command",
]
